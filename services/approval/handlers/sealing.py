"""Seals the record every few seconds, beside the service's real work."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from placet.audit.sealer import Sealer
from placet.contracts.audit import SEALED_STREAMS
from placet.contracts.errors import PlacetError
from placet.observability import logs, metrics

log = logs.get(__name__)

_LAST_S = 3.0


class Sealing:
    """A loop that nobody waits for: what could not be sealed now is sealed later, by whatever replica there is."""

    def __init__(self, sealer: Sealer, every_s: float) -> None:
        self._sealer = sealer
        self._every_s = every_s
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._seal_for_ever())

    async def stop(self) -> None:
        """Seal what is there, so that little is left unsealed while nobody runs. Without a loop: nothing to stop."""
        if self._loop is None:
            return
        # A seal that is being appended is there or it is not: the next look tells.
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._seal_all()

    async def _seal_for_ever(self) -> None:
        while True:
            await self._seal_all()
            await asyncio.sleep(self._every_s)

    async def _seal_all(self) -> None:
        for stream in SEALED_STREAMS:
            await self._seal(stream)

    async def _seal(self, stream: str) -> None:
        try:
            metrics.SEALED_EVENTS.labels(stream).inc(await self._sealer.seal(stream))
        except PlacetError as error:
            log.warning("cannot seal now", stream=stream, code=error.code.value)
        except Exception:
            # A fault of ours must not end sealing for good; the age of unsealed events tells of it.
            log.exception("sealing failed", stream=stream)
