"""The docker command, called with argument lists against one engine."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

KEY_LABEL = "placet.content-key"
Member = tuple[Path, str]


class ClientError(Exception):
    """A step failed; the message holds the end of what it printed."""


def checked(argv: list[str], environment: Mapping[str, str] | None = None, stdin: bytes | None = None) -> str:
    """Run a command to its end and return its standard output. Raises `ClientError` on a non-zero exit code."""
    result = subprocess.run(argv, input=stdin, capture_output=True, env=environment, check=False)
    if result.returncode:
        output = (result.stdout + result.stderr).decode("utf-8", "replace")
        raise ClientError(f"{' '.join(argv[:4])} … exited {result.returncode}:\n{output[-3000:]}")
    return result.stdout.decode("utf-8", "replace")


class Client:
    """Calls `docker` with `DOCKER_HOST` set to one engine."""

    def __init__(self, host: str) -> None:
        self._docker, buildkit = _client_with_buildkit()
        self._environment = {**os.environ, "DOCKER_HOST": host, "DOCKER_BUILDKIT": "1" if buildkit else "0"}

    def docker(self, *arguments: str, stdin: bytes | None = None) -> str:
        return checked([self._docker, *arguments], self._environment, stdin)

    def call(self, argv: list[str]) -> int:
        """Run any command against this engine, its output passed through; returns its exit code."""
        return subprocess.run(argv, env=self._environment, check=False).returncode

    def has_image(self, name: str) -> bool:
        try:
            self.docker("image", "inspect", name)
        except ClientError:
            return False
        return True

    def key_of(self, name: str) -> str:
        """The content key an image of ours was built with; empty for an image of another origin."""
        return self.docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{KEY_LABEL}"}}}}', name).strip()

    def build(self, name: str, key: str, dockerfile: str, members: Iterable[Member], **arguments: str) -> None:
        """`docker build` from a context made of exactly these files. Raises `ClientError`."""
        argv = ["build", "--quiet", "--force-rm", "--tag", name, "--label", f"{KEY_LABEL}={key}", "--file", dockerfile]
        for argument, value in arguments.items():
            argv += ["--build-arg", f"{argument}={value}"]
        self.docker(*argv, "-", stdin=_context(members))


def _client_with_buildkit() -> tuple[str, bool]:
    """The `docker` to call, and whether it can use BuildKit (26 s an image instead of 64).

    Up to version 22 the client has it built in, later ones need the buildx plugin; Debian's `docker.io` may stand
    beside a newer client without it. The classic builder works with any.
    """
    folders = os.environ.get("PATH", "").split(os.pathsep)
    found = [path for folder in folders if (path := shutil.which("docker", path=folder))]
    for path in found:
        version = re.search(r"version (\d+)\.", checked([path, "--version"]))
        if version and int(version[1]) < 23:
            return path, True
        with contextlib.suppress(ClientError):
            checked([path, "buildx", "version"])
            return path, True
    return (found[0] if found else "docker"), False


def _context(members: Iterable[Member]) -> bytes:
    """A build context as a tar: each file or folder under its name in the context."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, name in members:
            tar.add(path, name, filter=_plain)
    return buffer.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The same bytes for the same content, whoever owns the files and whenever they were written."""
    if "__pycache__" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member
