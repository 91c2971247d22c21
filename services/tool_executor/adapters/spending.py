"""What a tenant spends on one day, in one record by compare-and-set.

Whatever this process wants to change while a write is on its way goes into the next one together: many effects at once
are a few writes, and only processes, not effects, race for the record.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue
from placet.observability import logs
from services.tool_executor.domain.usage import DaySpending

log = logs.get(__name__)

_ATTEMPTS = 50

Change = Callable[[DaySpending], DaySpending | None]


class KvTenantSpending:
    """Implements `TenantSpending`. The day is UTC's, by the executor's clock; an effect may end on the day after."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket
        self._waiting: dict[str, list[tuple[Change, asyncio.Future[bool]]]] = defaultdict(list)
        self._flushing: dict[str, asyncio.Task[None]] = {}

    async def reserve(self, tenant: str, key: str, amount: float, limit: float) -> bool:
        money, most = Decimal(str(amount)), Decimal(str(limit))
        return await self._submit(_record(tenant, 0), lambda day: day.reserve(key, money, most))

    async def release(self, tenant: str, key: str) -> None:
        for days_ago in (0, 1):
            await self._submit(_record(tenant, days_ago), lambda day: day.close(key, took_effect=False))

    def keep(self, tenant: str, key: str) -> None:
        """Not waited for: what is never closed is counted all the same."""
        self._enqueue(_record(tenant, 0), lambda day: day.close(key, took_effect=True))

    async def _submit(self, record: str, change: Change) -> bool:
        return await self._enqueue(record, change)

    def _enqueue(self, record: str, change: Change) -> asyncio.Future[bool]:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)
        self._waiting[record].append((change, future))
        if record not in self._flushing:
            self._flushing[record] = asyncio.create_task(self._flush(record))
        return future

    async def _flush(self, record: str) -> None:
        try:
            while batch := self._waiting.pop(record, None):
                try:
                    outcomes = await self._apply(record, [change for change, _ in batch])
                except PlacetError as error:
                    _fail(batch, error)
                    continue
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
        finally:
            del self._flushing[record]

    async def _apply(self, record: str, changes: list[Change]) -> list[bool]:
        """Raises `PlacetError`: `dependency_unavailable`, or `rate_limited` when others came first each time."""
        outcomes: list[bool] = []

        def changed(value: bytes | None) -> bytes | None:
            before = DaySpending.from_json(orjson.loads(value)) if value is not None else DaySpending()
            day = before
            outcomes.clear()
            for change in changes:
                after = change(day)
                outcomes.append(after is not None)
                day = day if after is None else after
            return None if day == before else orjson.dumps(day.as_json())

        try:
            await self._bucket.change(record, changed, attempts=_ATTEMPTS)
        except KeyConflictError as error:
            raise PlacetError(ErrorCode.RATE_LIMITED, "Too many effects of this tenant at once.") from error
        return outcomes


def _record(tenant: str, days_ago: int) -> str:
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    return f"{subjects.token(tenant)}.spending.{day.isoformat()}"


def _fail(batch: list[tuple[Change, asyncio.Future[bool]]], error: PlacetError) -> None:
    log.warning("spending not counted", code=error.code.value, waiting=len(batch))
    for _, future in batch:
        if not future.done():
            future.set_exception(error)


def _seen(future: asyncio.Future[bool]) -> None:
    """Nobody may be waiting for it any more; then its failure was logged, and that is all there is to do."""
    if not future.cancelled():
        future.exception()
