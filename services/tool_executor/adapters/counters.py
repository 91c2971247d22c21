"""What a run has used, in its bucket, by compare-and-set: several executors count one run without losing a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue
from services.tool_executor.domain.usage import RunUse

_ATTEMPTS = 20


class KvRunCounters:
    """Implements `RunCounters`. Raises `PlacetError(rate_limited)` when twenty other calls came first each time."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def take_call(self, tenant: str, run_id: str, call_id: str, fingerprint: str | None) -> RunUse:
        def count(use: RunUse) -> RunUse:
            firsts = use.firsts if fingerprint is None else {fingerprint: call_id} | dict(use.firsts)
            return replace(use, calls=use.calls + 1, firsts=firsts)

        return await self._change(tenant, run_id, count)

    async def spend(self, tenant: str, run_id: str, call_id: str, amount: float, limit: float) -> bool:
        def add(use: RunUse) -> RunUse:
            return use if use.spent_without(call_id) + amount > limit else use.spending(call_id, amount)

        before = await self._change(tenant, run_id, add)
        return before.spent_without(call_id) + amount <= limit

    async def _change(self, tenant: str, run_id: str, change: Callable[[RunUse], RunUse]) -> RunUse:
        """Returns what was there before the change that was stored."""
        before = RunUse()

        def changed(value: bytes | None) -> bytes | None:
            nonlocal before
            before = RunUse.from_json(orjson.loads(value)) if value is not None else RunUse()
            after = change(before)
            return None if after == before else orjson.dumps(after.as_json())

        key = f"{subjects.token(tenant)}.{subjects.token(run_id)}"
        try:
            await self._bucket.change(key, changed, attempts=_ATTEMPTS)
        except KeyConflictError as error:
            raise PlacetError(ErrorCode.RATE_LIMITED, "Too many calls of this run at once.") from error
        return before
