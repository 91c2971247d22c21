"""Agent services that kill themselves at one moment each: before, in the middle of, or after a node."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from services.agent.settings import Settings

# The nodes that write something of their own, so that there is a middle to die in.
_APPENDS = {"route", "execute", "compose", "finish", "await_decision"}


def moments(*nodes: str) -> list[tuple[str, str]]:
    """Before, in the middle of, and after each."""
    every = ((node, when) for node in nodes for when in ("before", "between", "after"))
    return [(node, when) for node, when in every if when != "between" or node in _APPENDS]


def environment(settings: Settings) -> dict[str, str]:
    """The same settings for a child process."""
    values = settings.model_dump(exclude_none=True)
    plain = {name: str(value) for name, value in values.items() if name not in ("agent_api_key", "nats_seed")}
    return {f"PLACET_{name.upper()}": value for name, value in plain.items()}


class Nursery:
    """Agent services that die at one moment each, one after the other."""

    def __init__(self, environment: Mapping[str, str], log: Path, root: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.dying_workers"],
            cwd=root,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root}:{root / 'libs'}", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    async def killed(self, node: str, when: str) -> None:
        """Let one be born, and wait until it has killed itself there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{node} {when}\n")
        self._process.stdin.flush()
        async with asyncio.timeout(90):
            answer = await asyncio.to_thread(self._process.stdout.readline)
        assert answer.strip() == "-9", f"{node} {when}: {answer}"

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()
