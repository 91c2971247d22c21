"""Original files in the bus's object store, addressed by the caller's key, checked by digest on reading."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any

import nats.errors
import nats.js.errors
import orjson

from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.append import MESSAGE_ID
from placet.messaging.connection import Bus

_CHUNK = 131_072
_TIMEOUT_S = 5.0
_ROLLUP = {"Nats-Rollup": "sub"}
# Our own entry in a description: where each chunk lies on the stream, so that a slice is read without the rest.
_PLACES = "placet-sequences"


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

    def _chunk_subject(self, nuid: str) -> str:
        return f"$O.{self._bucket}.C.{nuid}"

    async def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`; storing the same bytes again changes nothing."""
        digest = hashlib.sha256(data).digest()
        if await self._has(key, digest):
            return
        nuid = secrets.token_hex(16)
        chunks = range(0, len(data), _CHUNK)
        places = [await self._chunk(nuid, n, data[start : start + _CHUNK]) for n, start in enumerate(chunks)]
        await self._describe(key, nuid, places, len(data), digest, _CHUNK)

    async def stage(self, upload: str, index: int, data: bytes) -> int:
        """Store one part of a file that is still arriving; returns its place. Nobody sees it before `adopt`.

        The same part again within two minutes is stored once.
        """
        return await self._chunk(upload, index, data)

    async def adopt(self, upload: str, key: str, places: Sequence[int], *, part: int, size: int, sha256: str) -> None:
        """Make staged parts the object `key`; every part but the last has `part` bytes.

        What is stored is read back and held against `size` and `sha256` (hex) first. Raises `ValueError` when it is
        something else; the parts stay staged then. If `key` has these bytes already, the parts are discarded.
        """
        found, length = hashlib.sha256(), 0
        async for data in self._at(upload, places):
            found.update(data)
            length += len(data)
        if length != size or found.hexdigest() != sha256:
            raise ValueError("the stored parts are not the file that was announced")
        if await self._has(key, found.digest()):
            await self.discard(upload, key)
        else:
            await self._describe(key, upload, places, size, found.digest(), part)

    async def discard(self, upload: str, key: str) -> None:
        """Let go of staged parts, unless they have become the object `key`.

        The caller makes sure that nobody adopts them meanwhile.
        """
        meta = await self._meta(key)
        if meta is None or meta.get("nuid") != upload:
            await self._publish(self._chunk_subject(upload), b"", _ROLLUP)

    async def get(self, key: str) -> bytes:
        """Raises `KeyError` when there is none, `PlacetError(dependency_unavailable)` when bytes are missing."""
        meta = await self._meta(key)
        if meta is None:
            raise KeyError(key)
        parts: list[bytes] = []
        length, sequence = 0, 1
        while length < int(meta["size"]):
            data, place = await self._next(str(meta["nuid"]), sequence)
            parts.append(data)
            length, sequence = length + len(data), place + 1
        data = b"".join(parts)[: int(meta["size"])]
        if _described(hashlib.sha256(data).digest()) != meta["digest"]:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The stored original is damaged.")
        return data

    async def read(self, key: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`, without reading the rest; empty behind the end. Raises `KeyError`.

        Nobody holds a slice against the digest of the whole: whoever joins the slices does.
        """
        meta = await self._meta(key)
        if meta is None:
            raise KeyError(key)
        places = [int(place) for place in str((meta.get("metadata") or {}).get(_PLACES, "")).split(",") if place]
        if not places:  # written by another program
            return (await self.get(key))[offset : offset + limit]
        chunk = int(meta["options"]["max_chunk_size"])
        first, end = offset // chunk, min(offset + limit, int(meta["size"]))
        parts = [data async for data in self._at(str(meta["nuid"]), places[first : -(-end // chunk)])]
        return b"".join(parts)[offset - first * chunk :][: max(0, end - offset)]

    async def _chunk(self, nuid: str, index: int, data: bytes) -> int:
        return await self._publish(self._chunk_subject(nuid), data, {MESSAGE_ID: f"{nuid}-{index}"})

    async def _describe(self, key: str, nuid: str, places: Sequence[int], size: int, digest: bytes, chunk: int) -> None:
        document = {
            "name": key,
            "bucket": self._bucket,
            "nuid": nuid,
            "size": size,
            "chunks": len(places),
            "digest": _described(digest),
            "options": {"max_chunk_size": chunk},
            "metadata": {_PLACES: ",".join(map(str, places))},
        }
        await self._publish(self._meta_subject(key), orjson.dumps(document), _ROLLUP)

    async def _publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        try:
            return (await self._bus.js.publish(subject, payload, headers=headers, timeout=_TIMEOUT_S)).seq
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The original could not be stored.") from error

    async def _next(self, nuid: str, sequence: int) -> tuple[bytes, int]:
        """The first chunk at or behind `sequence`, and where it lies."""
        try:
            message = await self._bus.js.get_msg(
                self._stream, seq=sequence, subject=self._chunk_subject(nuid), next=True
            )
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The original could not be read.") from error
        return message.data or b"", int(message.seq or 0)

    async def _at(self, nuid: str, places: Sequence[int]) -> AsyncIterator[bytes]:
        for place in places:
            data, found = await self._next(nuid, place)
            if found != place:
                raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "A part of the original is missing.")
            yield data

    async def _has(self, key: str, digest: bytes) -> bool:
        meta = await self._meta(key)
        return bool(meta) and (meta or {}).get("digest") == _described(digest)

    async def _meta(self, key: str) -> dict[str, Any] | None:
        try:
            message = await self._bus.js.get_last_msg(self._stream, self._meta_subject(key))
        except nats.js.errors.NotFoundError:
            return None
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The object store is not available.") from error
        document: dict[str, Any] = orjson.loads(message.data or b"{}")
        return None if document.get("deleted") else document


def _described(digest: bytes) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(digest).decode()
