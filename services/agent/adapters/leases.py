"""Leases in the LEASES bucket: one key per run, gone by itself when its holder dies.

The epoch is the bucket's own sequence number at the moment of acquisition, so a later lease always has a higher one.
The lease only keeps two workers from wasting work: what makes a late one harmless is the compare-and-set of every
append.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

from placet.contracts import subjects
from placet.contracts.errors import PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue
from placet.observability import logs
from placet.observability.context import new_id
from services.agent.errors import LeaseLostError

log = logs.get(__name__)

# Stop this long before the server would let somebody else in.
_MARGIN_S = 1.0
_RETRY_S = 0.5
_FREE = b"free"  # given back, and about to disappear


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. A dead worker's run is taken over at most `ttl_s` after its last renewal."""

    ttl_s: int = 6
    renew_s: float = 1.5


class KvLeases:
    """Implements `Leases` for one worker."""

    def __init__(self, bucket: KeyValue, worker: str, times: LeaseTimes) -> None:
        self._bucket = bucket
        self._worker = worker
        self._times = times

    async def acquire(self, tenant: str, run_id: str) -> KvLease | None:
        key = f"{subjects.token(tenant)}.{subjects.token(run_id)}"
        value = json.dumps({"worker": self._worker, "lease": new_id("lease")}).encode()
        asked_at = time.monotonic()
        try:
            revision = await self._taken(key, value)
        except KeyConflictError:
            return None
        lease = KvLease(self._bucket, key, value, revision, self._times, asked_at)
        lease.start()
        return lease

    async def _taken(self, key: str, value: bytes) -> int:
        """The epoch. Raises `KeyConflictError` while somebody else holds the key."""
        try:
            return await self._bucket.create(key, value, ttl_s=self._times.ttl_s)
        except KeyConflictError:
            entry = await self._bucket.get(key)
            if entry is None or entry.value != _FREE:
                raise
            return await self._bucket.update(key, value, entry.revision, ttl_s=self._times.ttl_s)


class KvLease:
    """A held lease, renewed in the background until it is released or lost."""

    def __init__(
        self, bucket: KeyValue, key: str, value: bytes, revision: int, times: LeaseTimes, asked_at: float
    ) -> None:
        self.epoch = revision
        self._bucket = bucket
        self.key = key
        self._value = value
        self._revision = revision
        self._times = times
        self._good_until = asked_at + times.ttl_s - _MARGIN_S
        self._lost = asyncio.Event()
        self._released = False
        self._renewing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._renewing = asyncio.create_task(self._renew_for_ever())

    def check(self) -> None:
        """By this process's own clock: a process that was stopped for a while notices it here, before it writes."""
        if self._lost.is_set() or time.monotonic() > self._good_until:
            self._lost.set()
            raise LeaseLostError(self.key)

    async def wait_lost(self) -> None:
        await self._lost.wait()

    async def release(self) -> None:
        """Let others in. What stays of the key is gone a second later, so that leases do not pile up."""
        self._released = True
        if self._renewing:
            # The flag ends the loop even where the cancellation is lost: before Python 3.12, `wait_for` below it may
            # swallow one that comes together with its result.
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self._lost.is_set():
            return
        try:
            await self._bucket.update(self.key, _FREE, self._revision, ttl_s=1)
        except (KeyConflictError, PlacetError) as error:
            log.info("a lease ends by itself", key=self.key, error=type(error).__name__)

    async def _renew_for_ever(self) -> None:
        pause_s = self._times.renew_s
        while not (self._lost.is_set() or self._released):
            await asyncio.sleep(pause_s)
            pause_s = self._times.renew_s if await self._renewed() else _RETRY_S

    async def _renewed(self) -> bool:
        asked_at = time.monotonic()
        try:
            self._revision = await self._bucket.update(self.key, self._value, self._revision, ttl_s=self._times.ttl_s)
        except KeyConflictError:
            if not await self._still_mine():
                self._lost.set()
            return False
        except PlacetError:
            if time.monotonic() > self._good_until:
                self._lost.set()
            return False
        self._good_until = asked_at + self._times.ttl_s - _MARGIN_S
        return True

    async def _still_mine(self) -> bool:
        """A renewal whose acknowledgement was lost has moved the revision: then the value is still ours."""
        try:
            entry = await self._bucket.get(self.key)
        except PlacetError:
            return time.monotonic() <= self._good_until
        if entry is None or entry.value != self._value:
            return False
        self._revision = entry.revision
        return True
