"""How many executors there are, by keys that end by themselves: what a killed one held is free again soon after.

No clock is compared with another: the server ends a key that is not renewed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from placet.contracts.errors import PlacetError
from placet.messaging.kv import Entry, KeyConflictError, KeyValue
from placet.observability import logs

log = logs.get(__name__)

_PLACES = 16
_LIFETIME_S = 15
_RENEWAL_S = 5.0


class Presence:
    """One place of `_PLACES` is this process's. A count that cannot be renewed stays what it was."""

    def __init__(self, bucket: KeyValue, name: str) -> None:
        self._bucket = bucket
        self._name = name.encode()
        self._place: tuple[int, int] | None = None
        self._task: asyncio.Task[None] | None = None
        self.workers = 1

    async def start(self) -> None:
        await self.renew()
        self._task = asyncio.create_task(self._renew_for_ever())

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._place:
            with suppress(PlacetError, KeyConflictError):
                await self._bucket.delete(_key(self._place[0]), self._place[1])

    async def renew(self) -> None:
        """Keep the own place, or take a free one, and count the others."""
        taken = {place: entry for place in range(_PLACES) if (entry := await self._bucket.get(_key(place)))}
        await self._keep_or_take(taken)
        mine = self._place[0] if self._place else None
        self.workers = 1 + sum(place != mine for place in taken)

    async def _keep_or_take(self, taken: dict[int, Entry]) -> None:
        if self._place:
            place, revision = self._place
            try:
                self._place = place, await self._bucket.update(_key(place), self._name, revision, ttl_s=_LIFETIME_S)
                return
            except KeyConflictError:
                self._place = None  # it ended while the bus was away
        for place in range(_PLACES):
            if place in taken:
                continue
            try:
                self._place = place, await self._bucket.create(_key(place), self._name, ttl_s=_LIFETIME_S)
                return
            except KeyConflictError:
                continue

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_S)
            try:
                await self.renew()
            except PlacetError as error:
                log.warning("presence not renewed", code=error.code.value)


def _key(place: int) -> str:
    return f"executor.{place}"
