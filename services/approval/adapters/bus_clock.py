"""One clock for all replicas: the bus's, which also fires the timers."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from placet.contracts.errors import PlacetError
from placet.messaging.kv import KeyValue
from placet.observability import logs
from placet.observability.context import new_id
from services.approval.ports import Clock

log = logs.get(__name__)

_EVERY_S = 60.0
_NOTED = timedelta(seconds=1)


class BusClock:
    """This machine's time, corrected by how far it is from the server's: two minutes off change nothing.

    Measured by what the server writes beside a stored message, to half of the way there and back.
    """

    def __init__(self, bucket: KeyValue, local: Clock) -> None:
        self._bucket = bucket
        self._local = local
        self._offset = timedelta()
        self._loop: asyncio.Task[None] | None = None

    def __call__(self) -> datetime:
        return self._local() + self._offset

    async def start(self) -> None:
        await self._measure()
        self._loop = asyncio.create_task(self._measure_for_ever())

    async def stop(self) -> None:
        if self._loop:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _measure_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._measure()

    async def _measure(self) -> None:
        key = f"clock.{new_id('at')}"
        try:
            before = self._local()
            await self._bucket.create(key, b"", ttl_s=5)
            after = self._local()
            entry = await self._bucket.get(key)
        except PlacetError as error:
            log.warning("the bus's clock is not known now", code=error.code.value)
            return
        if entry is None or entry.stored_at is None:
            return
        self._offset = entry.stored_at - (before + (after - before) / 2)
        if abs(self._offset) > _NOTED:
            log.warning("this machine's clock is wrong", seconds=self._offset.total_seconds())
