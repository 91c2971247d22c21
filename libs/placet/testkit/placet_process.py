"""`placet up` as a test sees it: a real process on a directory of its own, with all of its children."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
import pytest

from placet.client import PlacetClient, ReadyLine
from placet.observability.probe import answers
from placet.testkit.processes import alive
from placet.testkit.waiting import until

READY_TIMEOUT_S = 180.0
HEAL_TIMEOUT_S = 60.0


class PlacetProcess:
    """One running `placet up`. Stop it with `stop`; `kill` takes one child by SIGKILL and waits until it is healed."""

    def __init__(self, process: Process, state: Path, ready: ReadyLine) -> None:
        self._process = process
        self.state = state
        self.ready = ready

    @classmethod
    async def start(cls, state: Path, *, engine: str = "auto") -> Self:
        """Raises `AssertionError` with the supervisor's own words when it does not become ready."""
        await asyncio.to_thread(state.mkdir, parents=True, exist_ok=True)
        said = state / "up.stderr"
        with said.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "placet.cli.main", "up", "--state-dir", str(state), "--policy-engine", engine),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                line = (await process.stdout.readline()).decode() if process.stdout else ""
        except BaseException:
            await _end(process)
            raise
        if not line:
            raise AssertionError(f"`placet up` ended with {await process.wait()}:\n{said.read_text()[-3000:]}")
        return cls(process, state, ReadyLine.parse(line))

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        return self._process.pid

    def client(self, person: str) -> PlacetClient:
        """Close it, or use it as a context manager."""
        return PlacetClient(self.ready.gateway, self.ready.tokens[person])

    def pids(self) -> dict[str, int]:
        """Process ids of this moment, by child; 0 while it is being started again."""
        written: dict[str, int | None] = json.loads((self.state / "processes.json").read_text(encoding="utf-8"))
        return {name: pid or 0 for name, pid in written.items()}

    def family(self) -> set[int]:
        """The supervisor and everything below it."""
        supervisor = psutil.Process(self.pid)
        return {supervisor.pid, *(child.pid for child in supervisor.children(recursive=True))}

    async def kill(self, name: str) -> None:
        """SIGKILL one child, and wait until another one has taken its place and the gateway is ready."""
        victim = self.pids()[name]
        psutil.Process(victim).send_signal(signal.SIGKILL)
        await until(lambda: self.pids()[name] not in (0, victim), HEAL_TIMEOUT_S)
        await self.settled()

    async def settled(self) -> None:
        """Wait until the gateway and every service say that they are ready."""
        ports = json.loads((self.state / "ports.json").read_text(encoding="utf-8"))
        urls = [f"http://127.0.0.1:{port}/readyz" for name, port in ports.items() if name not in ("nats", "opa")]
        deadline = asyncio.get_running_loop().time() + HEAL_TIMEOUT_S
        while True:
            found = [await asyncio.to_thread(answers, url, 3.0) for url in urls]
            if all(ready for ready, _ in found):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not healed after {HEAL_TIMEOUT_S:g} s: {dict(zip(urls, found, strict=True))}")
            await asyncio.sleep(0.1)

    async def further_output(self) -> bytes:
        """What came on standard output after the READY line; call it after `stop`."""
        return await self._process.stdout.read() if self._process.stdout else b""

    async def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 60.0) -> int:
        """Stop the supervisor by its process id and return its exit code."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._process.wait()
        except TimeoutError:
            await _end(self._process)
            raise AssertionError(f"`placet up` did not stop within {timeout_s:g} s") from None


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def running(engine: str = "auto") -> AsyncIterator[PlacetProcess]:
    """One `placet up` on a temporary directory, stopped at the end. For fixtures of any scope."""
    state = Path(tempfile.mkdtemp(prefix="placet-up-"))
    placet = await PlacetProcess.start(state, engine=engine)
    family = placet.family()
    try:
        yield placet
    finally:
        await placet.stop()
        await until(lambda: not any(alive(pid) for pid in family))
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="session")
async def placet_up() -> AsyncIterator[PlacetProcess]:
    """The session's house. Tests share it: they leave it running, and what they change is their own."""
    async for placet in running():
        yield placet
