"""One child process: started, watched, started again after any death, stopped by its process id."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from placet.cli.supervisor.spec import Backoff, ChildSpec
from placet.cli.supervisor.tied import tied

PROBE_PAUSE_S = 0.05
# Deaths before it was ever ready: then something is wrong that another start will not mend.
HOPELESS_AFTER = 3

Report = Callable[[str], None]


class ChildFailedError(RuntimeError):
    """The child did not become ready; the message ends with the last lines of its log."""


class Child:
    """Call `start` once, then `wait_ready`; `stop` ends it for good."""

    def __init__(self, spec: ChildSpec, report: Report, on_change: Callable[[], None] = lambda: None) -> None:
        """`report` gets a line for people about every death; `on_change` is called when the process id changes."""
        self.spec = spec
        self.deaths = 0
        self._report = report
        self._on_change = on_change
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._was_ready = False

    @property
    def pid(self) -> int | None:
        """None while there is no process (between a death and the next start)."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start the process and watch over it. Raises `OSError` when it cannot be started at all."""
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep_alive(), name=f"keep {self.spec.name}")

    async def wait_ready(self, timeout_s: float) -> None:
        """Raises `ChildFailedError` when it is not ready in time, or keeps dying."""
        deadline = time.monotonic() + timeout_s
        while not (self.pid and await self.spec.ready()):
            if self.deaths >= HOPELESS_AFTER and not self._was_ready:
                raise self._failed(f"died {self.deaths} times")
            if time.monotonic() > deadline:
                raise self._failed(f"is not ready after {timeout_s:g} s")
            await asyncio.sleep(PROBE_PAUSE_S)
        self._was_ready = True

    async def stop(self, *, at_once: bool = False) -> None:
        """Ask it to end, wait for `grace_s`, then kill it. Does nothing when it has ended. No more restarts.

        `at_once` cuts the grace short; a second call with it hurries a first one that is still waiting.
        """
        self._stopping.set()
        process = self._process
        if process is not None and process.returncode is None:
            _signal(process, signal.SIGKILL if at_once else self.spec.stop_signal)
            try:
                await asyncio.wait_for(process.wait(), self.spec.grace_s)
            except TimeoutError:
                self._report(f"{self.spec.name} did not stop within {self.spec.grace_s:g} s: killed")
                _signal(process, signal.SIGKILL)
                await process.wait()
        if self._keeper is not None:
            await self._keeper

    async def _keep_alive(self) -> None:
        backoff = Backoff()
        while True:
            started = time.monotonic()
            code = await self._process.wait() if self._process is not None else None
            self._on_change()
            if self._stopping.is_set():
                return
            self.deaths += 1
            pause_s, backoff = backoff.after(time.monotonic() - started)
            self._report(
                f"{self.spec.name} ended ({_describe(code)}); starting it again in {pause_s:g} s (log: {self.spec.log})"
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
                return
            await self._spawn_again()

    async def _spawn_again(self) -> None:
        try:
            await self._spawn()
        except OSError as error:
            self._process = None
            self._report(f"{self.spec.name} cannot be started: {error}")

    async def _spawn(self) -> None:
        spec = self.spec
        command = spec.command()
        if spec.orphan_signal is not None:
            command = tied(command, spec.orphan_signal)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        with spec.log.open("ab") as log:
            # In a session of its own: Ctrl-C at the terminal reaches only us, and we stop children in order.
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(spec.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._on_change()

    def _failed(self, what: str) -> ChildFailedError:
        return ChildFailedError(f"{self.spec.name} {what}; the end of {self.spec.log}:\n{tail(self.spec.log)}")


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log file, at most 4 kB of them."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace")[-4096:].splitlines()[-lines:])


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def _describe(code: int | None) -> str:
    if code is None:
        return "not running"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
