"""The processes that start service processes (`spawner.py`), as the test uses them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


class Spawner:
    """One service, imported once. `start` gives the process id of a new process of it."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._turn = asyncio.Lock()

    @classmethod
    async def load(cls, module: str, environment: Mapping[str, str], log: Path) -> Self:
        """Raises `AssertionError` when the module cannot be imported; its log says why."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.chaos.spawner", module),
                cwd=ROOT,
                env={**environment, "PYTHONPATH": f"{ROOT}:{ROOT / 'libs'}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        spawner = cls(process, log)
        if await spawner._line() != "ready":
            raise AssertionError(f"{module} cannot be imported: {log.read_text()[-2000:]}")
        return spawner

    async def start(self, environment: Mapping[str, str]) -> int:
        order = json.dumps({"env": dict(environment), "log": str(self._log)})
        async with self._turn:
            if self._process.stdin is None:
                raise AssertionError("a spawner takes orders")
            self._process.stdin.write(order.encode() + b"\n")
            await self._process.stdin.drain()
            return int(await self._line())

    async def close(self) -> None:
        """Ends it, and with it every process that it has started."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _line(self) -> str:
        return (await self._process.stdout.readline()).decode().strip() if self._process.stdout else ""
