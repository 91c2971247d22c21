"""Idempotency entries in a key-value bucket; the bucket forgets them after a day."""

from __future__ import annotations

from placet.messaging.kv import KeyConflictError, KeyValue
from placet.observability import logs
from services.gateway.domain.idempotency import Entry, decode, encode

log = logs.get(__name__)


class KvIdempotency:
    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def create(self, key: str, entry: Entry) -> int | None:
        try:
            return await self._bucket.create(key, encode(entry))
        except KeyConflictError:
            return None

    async def find(self, key: str) -> tuple[Entry, int] | None:
        stored = await self._bucket.get(key)
        if stored is None:
            return None
        try:
            return decode(stored.value), stored.revision
        except (ValueError, KeyError, TypeError):
            # Written by a later version: refused as another body's key, rather than run a second time.
            log.warning("unreadable idempotency entry", key=key)
            return Entry(fingerprint="", at=0.0), stored.revision

    async def replace(self, key: str, entry: Entry, revision: int) -> int | None:
        try:
            return await self._bucket.update(key, encode(entry), revision)
        except KeyConflictError:
            return None

    async def drop(self, key: str, revision: int) -> None:
        try:
            await self._bucket.delete(key, revision)
        except KeyConflictError:
            log.info("an idempotency entry was taken over", key=key)
