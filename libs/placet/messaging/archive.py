"""The stored record as it lies on the bus, for sealing and for verifying: raw messages, read by direct get."""

from __future__ import annotations

from collections.abc import AsyncIterator

from placet.contracts import subjects
from placet.contracts.audit import SEAL_OWNER, SEAL_TENANT, SEALED
from placet.contracts.stored import StoredBytes
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader

SEAL_STREAM = "SEALS"
_EVERYTHING = ">"
_PAGE = 256


class BusArchive:
    """Implements the archive that is verified, and the events that are sealed."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def page(self, stream: str, after: int, limit: int) -> list[StoredBytes]:
        """Raises `PlacetError(dependency_unavailable)` when the bus is away."""
        return await EventReader(self._bus, stream).raw_page(_EVERYTHING, after=after, limit=limit)

    async def events(self, stream: str) -> AsyncIterator[StoredBytes]:
        async for one in self._all(EventReader(self._bus, stream), _EVERYTHING):
            yield one

    async def seals(self, stream: str) -> AsyncIterator[StoredBytes]:
        async for one in self._all(EventReader(self._bus, SEAL_STREAM), seal_subject(stream)):
            yield one

    async def _all(self, reader: EventReader, filter_: str) -> AsyncIterator[StoredBytes]:
        after = 0
        while page := await reader.raw_page(filter_, after=after, limit=_PAGE):
            for one in page:
                yield one
            after = page[-1].seq


def seal_subject(stream: str) -> str:
    return subjects.event(SEAL_TENANT, SEAL_OWNER, SEALED, stream)
