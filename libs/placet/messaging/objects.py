"""Original files in the bus's object store, addressed by the caller's key, checked by digest on reading."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any

import nats.errors
import nats.js.errors
import orjson

from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.append import MESSAGE_ID
from placet.messaging.connection import Bus

_CHUNK = 131_072
_TIMEOUT_S = 5.0


class ObjectStore:
    """One bucket in the layout of NATS object stores, so that `nats object get` reads it too.

    Writes chunks first and the description last: a crash in between leaves no half-visible object.
    """

    def __init__(self, bus: Bus, bucket: str) -> None:
        self._bus = bus
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    def _meta_subject(self, key: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(key.encode()).decode()}"

    async def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`; storing the same bytes again changes nothing."""
        digest = hashlib.sha256(data)
        described = "SHA-256=" + base64.urlsafe_b64encode(digest.digest()).decode()
        meta = await self._meta(key)
        if meta and meta.get("digest") == described:
            return
        nuid = secrets.token_hex(16)
        chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
        document = {
            "name": key,
            "bucket": self._bucket,
            "nuid": nuid,
            "size": len(data),
            "chunks": len(chunks),
            "digest": described,
            "options": {"max_chunk_size": _CHUNK},
        }
        try:
            for index, chunk in enumerate(chunks):
                headers = {MESSAGE_ID: f"{nuid}-{index}"}
                await self._bus.js.publish(f"$O.{self._bucket}.C.{nuid}", chunk, headers=headers, timeout=_TIMEOUT_S)
            rollup = {"Nats-Rollup": "sub"}
            await self._bus.js.publish(
                self._meta_subject(key), orjson.dumps(document), headers=rollup, timeout=_TIMEOUT_S
            )
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The original could not be stored.") from error

    async def get(self, key: str) -> bytes:
        """Raises `KeyError` when there is none, `PlacetError(dependency_unavailable)` when bytes are missing."""
        meta = await self._meta(key)
        if meta is None:
            raise KeyError(key)
        subject = f"$O.{self._bucket}.C.{meta['nuid']}"
        parts: list[bytes] = []
        sequence = 1
        try:
            while sum(map(len, parts)) < int(meta["size"]):
                message = await self._bus.js.get_msg(self._stream, seq=sequence, subject=subject, next=True)
                parts.append(message.data or b"")
                sequence = int(message.seq or 0) + 1
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The original could not be read.") from error
        data = b"".join(parts)[: int(meta["size"])]
        if "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode() != meta["digest"]:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The stored original is damaged.")
        return data

    async def _meta(self, key: str) -> dict[str, Any] | None:
        try:
            message = await self._bus.js.get_last_msg(self._stream, self._meta_subject(key))
        except nats.js.errors.NotFoundError:
            return None
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The object store is not available.") from error
        document: dict[str, Any] = orjson.loads(message.data or b"{}")
        return None if document.get("deleted") else document
