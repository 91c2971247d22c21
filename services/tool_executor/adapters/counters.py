"""Counters of runs in their bucket, by compare-and-set: several executors count one run without losing a call."""

from __future__ import annotations

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue

_ATTEMPTS = 20


class KvRunCounters:
    """Implements `RunCounters`."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def take_call(self, tenant: str, run_id: str) -> int:
        """Raises `PlacetError(rate_limited)` when twenty other calls of the same run came first each time."""
        key = f"{subjects.token(tenant)}.{subjects.token(run_id)}"
        for _ in range(_ATTEMPTS):
            entry = await self._bucket.get(key)
            used = int(entry.value) if entry else 0
            try:
                if entry:
                    await self._bucket.update(key, str(used + 1).encode(), entry.revision)
                else:
                    await self._bucket.create(key, b"1")
            except KeyConflictError:
                continue
            return used
        raise PlacetError(ErrorCode.RATE_LIMITED, "Too many calls of this run at once.")
