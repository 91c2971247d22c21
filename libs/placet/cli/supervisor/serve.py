"""`placet up` from the first directory to the last goodbye."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from placet.cli.state_dir import StateDir, StateDirInUseError
from placet.cli.supervisor.boot import Boot
from placet.cli.supervisor.crew import Crew
from placet.cli.supervisor.journal import Journal
from placet.policy.select import EngineChoice


@dataclass(frozen=True, slots=True)
class Options:
    """`port` None: the one of last time, else a free one."""

    state_dir: Path
    port: int | None = None
    engine: EngineChoice = "auto"


async def serve(options: Options, announce: Callable[[str], None]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. `announce` gets the READY line.

    0: stopped as asked. 1: did not become ready. 2: the state directory is in use. A second signal ends the grace.
    """
    state = StateDir.at(options.state_dir)
    try:
        with state.locked():
            journal = Journal(state.log("supervisor"))
            crew = Crew(journal, state.processes)
            return await _run(Boot(state, crew, journal), options, announce)
    except StateDirInUseError as error:
        print(f"placet up: {error}", file=sys.stderr)
        return 2


async def _run(boot: Boot, options: Options, announce: Callable[[str], None]) -> int:
    crew, journal = boot.crew, boot.journal
    stop = _on_signals(crew)
    booting = asyncio.create_task(boot.run(options.port, options.engine))
    waiting = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({booting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if booting.done():
            announce(booting.result().render())
            await waiting
        journal.say("stopping")
        return 0
    except Exception as error:  # noqa: BLE001 - whatever kept it from starting is told, and everything is stopped
        for cause in _causes(error):
            journal.say(f"placet up failed: {cause}")
        return 1
    finally:
        await _end(booting, waiting)
        await crew.drain()
        boot.release()


def _on_signals(crew: Crew) -> asyncio.Event:
    """The first SIGTERM or SIGINT sets the event, every further one kills what still runs."""
    stop = asyncio.Event()
    hurrying: set[asyncio.Task[None]] = set()

    def on_signal() -> None:
        if stop.is_set():
            hurrying.add(asyncio.create_task(crew.kill()))
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


async def _end(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _causes(error: BaseException) -> list[str]:
    """Children start side by side, so their failures come in groups."""
    if isinstance(error, BaseExceptionGroup):
        return [text for inner in error.exceptions for text in _causes(inner)]
    return [str(error) or type(error).__name__]
