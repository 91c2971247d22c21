"""The compose file as a project of a test's own: its own name, port, keys and volumes, removed at the end."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from placet.testkit.ports import free_port

SERVICES = ("gateway", "agent", "tool-executor", "approval", "memory")
LOG_LINES = 60


class ComposeError(RuntimeError):
    """The compose tool is missing or failed; the message ends with what it printed."""


def make_secrets(directory: Path) -> Path:
    """Every key and password of one installation, as `placet keys` makes them, readable for any container user.

    Raises `ComposeError` when the command fails.
    """
    run([sys.executable, "-m", "placet.cli.main", "keys", "--out", str(directory)])
    return directory


def run(argv: list[str], environment: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> str:
    """Run to its end and return standard output. Raises `ComposeError` on a non-zero exit code."""
    result = subprocess.run(argv, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ComposeError(f"{' '.join(argv)} exited {result.returncode}:\n{(result.stdout + result.stderr)[-4000:]}")
    return result.stdout


def compose_command() -> list[str]:
    """Compose v2 when the client has it, else version 1.29."""
    v2 = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if v2.returncode == 0 else ["docker-compose"]


class Project:
    """One compose project of its own: its name, port and secrets are nobody else's."""

    def __init__(self, root: Path, secrets_dir: Path) -> None:
        self.name = f"placet-test-{secrets.token_hex(4)}"
        self.port = free_port()
        self._root = root
        self._environment = {
            **os.environ,
            "PLACET_SECRETS": str(secrets_dir),
            "PLACET_HTTP_PORT": str(self.port),
            "PLACET_SEED_DEMO": "1",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def compose(self, *arguments: str) -> str:
        argv = [*compose_command(), "--project-name", self.name, *arguments]
        return run(argv, self._environment, cwd=self._root)

    def resolved(self) -> dict[str, Any]:
        """The compose file with every variable and default filled in."""
        document: dict[str, Any] = yaml.safe_load(self.compose("config"))
        return document

    def healthy(self) -> bool:
        """Whether every one of the five services is healthy by its own health check."""
        for service in SERVICES:
            container = self.compose("ps", "--quiet", service).strip()
            state = ["docker", "inspect", "--format", "{{.State.Health.Status}}", container]
            if not container or run(state, self._environment).strip() != "healthy":
                return False
        return True

    def up(self) -> None:
        self.compose("up", "--detach", "--no-build")

    def down(self) -> None:
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "10")

    def logs(self) -> str:
        return self.compose("logs", "--no-color", f"--tail={LOG_LINES}")
