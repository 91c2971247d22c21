"""Seals what has been stored since the last seal.

Any number of replicas may run one: every seal is appended by compare-and-set on its chain, so of two that seal the same
events one is stored and the other looks again. A sealer that is killed leaves a seal that is there or is not; the next
one goes on after the last that is there. Nothing waits for a seal: events are stored and acknowledged without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placet.audit.chain import MOST_EVENTS, link
from placet.contracts.audit import Sealed
from placet.contracts.stored import StoredBytes


class SealRaceError(Exception):
    """Somebody else has sealed meanwhile."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The end of a stream's chain: its last good seal, and the position after which the next one is appended."""

    last: Sealed | None
    position: int


class SealBook(Protocol):
    """The stored seals. Raises `PlacetError(dependency_unavailable)`."""

    async def chain(self, stream: str) -> Chain: ...

    async def append(self, seal: Sealed, position: int) -> Chain:
        """Raises `SealRaceError` when the chain has moved past `position`."""
        ...


class Events(Protocol):
    async def page(self, stream: str, after: int, limit: int) -> list[StoredBytes]:
        """What is stored after a sequence, oldest first, whatever it is."""
        ...


class Sealer:
    def __init__(self, book: SealBook, events: Events) -> None:
        self._book = book
        self._events = events
        self._seen: dict[str, int] = {}

    async def seal(self, stream: str) -> int:
        """Seal everything new; returns how many events that were.

        Leaves it to another replica that has sealed since the last look: it is at work.
        """
        chain = await self._book.chain(stream)
        before = self._seen.get(stream, chain.position)
        self._seen[stream] = chain.position
        if chain.position != before:
            return 0
        sealed = 0
        while events := await self._events.page(stream, chain.last.to_seq if chain.last else 0, MOST_EVENTS):
            try:
                chain = await self._book.append(link(stream, chain.last, events), chain.position)
            except SealRaceError:
                return sealed
            self._seen[stream] = chain.position
            if chain.last is None:
                break
            sealed += chain.last.count
            if len(events) < MOST_EVENTS and chain.last.to_seq == events[-1].seq:
                break
        return sealed
