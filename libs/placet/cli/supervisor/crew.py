"""All children together: who runs now, and in which order they leave."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from placet.cli.supervisor.child import Child
from placet.cli.supervisor.journal import Journal
from placet.cli.supervisor.spec import ChildSpec

# Who asks leaves before who answers, and the stores leave last.
LEAVING: tuple[tuple[str, ...], ...] = (
    ("gateway", "agent"),
    ("tool-executor", "approval", "memory"),
    ("opa",),
    ("postgres",),
    ("nats",),
)


class Crew:
    """Starts children, keeps `processes` (a JSON file of name -> process id) true, and drains them in order."""

    def __init__(self, journal: Journal, processes: Path, leaving: Sequence[Sequence[str]] = LEAVING) -> None:
        self._journal = journal
        self._processes = processes
        self._leaving = leaving
        self._children: dict[str, Child] = {}

    def pid(self, name: str) -> int:
        """The process id of a child that has been started and is alive now, else 0."""
        child = self._children.get(name)
        return (child.pid if child else None) or 0

    async def start(self, specs: Iterable[ChildSpec], timeout_s: float) -> None:
        """Start these side by side and wait until all are ready.

        Raises `ChildFailedError` for the first that does not become ready, `OSError` for one that cannot be started.
        """
        async with asyncio.TaskGroup() as group:
            for spec in specs:
                group.create_task(self._start_one(spec, timeout_s))

    async def drain(self) -> None:
        """Stop everything, stage after stage; those of one stage side by side."""
        named = {name for stage in self._leaving for name in stage}
        others = tuple(name for name in self._children if name not in named)
        for stage in (others, *self._leaving):
            present = [self._children[name] for name in stage if name in self._children]
            await asyncio.gather(*(self._stop_one(child) for child in present))
        self._processes.unlink(missing_ok=True)

    async def kill(self) -> None:
        """Hurry a drain: nobody gets any more grace."""
        await asyncio.gather(*(child.stop(at_once=True) for child in self._children.values()))

    async def _start_one(self, spec: ChildSpec, timeout_s: float) -> None:
        child = Child(spec, self._journal.say, self._write_processes)
        self._children[spec.name] = child
        with self._journal.step(f"starting {spec.name}"):
            await child.start()
            await child.wait_ready(timeout_s)

    async def _stop_one(self, child: Child) -> None:
        started = time.monotonic()
        await child.stop()
        self._journal.say(f"stopped {child.spec.name} … {time.monotonic() - started:.1f} s")

    def _write_processes(self) -> None:
        document = {name: child.pid for name, child in self._children.items()}
        partial = self._processes.with_suffix(".partial")
        with suppress(FileNotFoundError):  # the state directory was removed under us: nothing to keep true any more
            partial.write_text(json.dumps(document), encoding="utf-8")
            partial.replace(self._processes)
