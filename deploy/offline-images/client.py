"""The docker command, called with argument lists against one engine."""

from __future__ import annotations

import io
import os
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
        # The classic builder: BuildKit wants a plugin that Debian's engine does not bring.
        self._environment = {**os.environ, "DOCKER_HOST": host, "DOCKER_BUILDKIT": "0"}

    def docker(self, *arguments: str, stdin: bytes | None = None) -> str:
        return checked(["docker", *arguments], self._environment, stdin)

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
