"""Summaries in the MEMORY bucket. Its time to live is the bucket's: every save starts it anew."""

from __future__ import annotations

import json
from datetime import datetime

from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue
from services.memory.domain import Place, Remembered


class KvSummaryStore:
    """Implements `SummaryStore`."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, place: Place) -> Remembered | None:
        entry = await self._bucket.get(place.key())
        return _read(entry.value) if entry else None

    async def save(self, place: Place, remembered: Remembered) -> None:
        document = {"summary": remembered.summary, "updated_at": remembered.updated_at.isoformat()}
        await self._bucket.put(place.key(), json.dumps(document, ensure_ascii=False).encode())

    async def forget(self, place: Place) -> bool:
        key = place.key()
        entry = await self._bucket.get(key)
        if entry is None:
            return False
        try:
            await self._bucket.delete(key, entry.revision)
        except KeyConflictError:
            # Saved again in between: the newer summary goes as well, for it was there when we were asked.
            await self._bucket.delete(key)
        return True


def _read(value: bytes) -> Remembered:
    try:
        document = json.loads(value)
        return Remembered(str(document["summary"]), datetime.fromisoformat(document["updated_at"]))
    except (ValueError, KeyError, TypeError) as error:
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "A stored summary cannot be read.") from error
