"""What the memory service needs of the outside, by role."""

from __future__ import annotations

from typing import Protocol

from services.memory.domain import Place, Remembered


class SummaryStore(Protocol):
    """One summary per place, which ends by itself after the bucket's time to live.

    Every method raises `PlacetError(dependency_unavailable)` when the store is away.
    """

    async def load(self, place: Place) -> Remembered | None: ...

    async def save(self, place: Place, remembered: Remembered) -> None: ...

    async def forget(self, place: Place) -> bool:
        """Whether there was one."""
        ...
