"""Key-value buckets: leader reads, create and update by compare-and-set, per-key expiry.

Thin on purpose: the client library's own bucket object asks for stream rights that no service here holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import nats.errors
import nats.js.errors

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.append import EXPECTED
from placet.messaging.connection import Bus

_OPERATION = "KV-Operation"
_TTL = "Nats-TTL"
_GONE = ("DEL", "PURGE")
_TIMEOUT_S = 3.0
_WRONG_LAST_SEQUENCE = 10071


class KeyConflictError(Exception):
    """The key has changed since it was read (or exists already, on create)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`revision` goes into the next `update`; `stored_at` is when the server stored it, by the server's clock."""

    value: bytes
    revision: int
    stored_at: datetime | None = None


def _unavailable(error: Exception) -> PlacetError:
    problem = PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The key-value store is not available.")
    problem.__cause__ = error
    return problem


class KeyValue:
    """One bucket. Keys are dot-separated subject tokens; writing another one raises `BadSubjectError`."""

    def __init__(self, bus: Bus, bucket: str) -> None:
        self._bus = bus
        self._bucket = bucket
        self._stream = f"KV_{bucket}"

    def _subject(self, key: str) -> str:
        """A wildcard in a key would read, or overwrite, somebody else's."""
        return f"$KV.{self._bucket}." + ".".join(subjects.token(part) for part in key.split("."))

    async def get(self, key: str) -> Entry | None:
        """The latest value, from the bucket's leader; None when there is none (nor can be, for an impossible key)."""
        try:
            message = await self._bus.js.get_last_msg(self._stream, self._subject(key))
        except (nats.js.errors.NotFoundError, subjects.BadSubjectError):
            return None
        except (nats.errors.Error, TimeoutError) as error:
            raise _unavailable(error) from error
        if (message.headers or {}).get(_OPERATION) in _GONE or (message.headers or {}).get("Nats-Marker-Reason"):
            return None
        return Entry(message.data or b"", int(message.seq or 0), message.time)

    async def put(self, key: str, value: bytes) -> int:
        return await self._publish(key, value, {})

    async def create(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        """Raises `KeyConflictError` when the key has a value. A deleted key can be created again."""
        try:
            return await self._publish(key, value, self._headers(0, ttl_s))
        except KeyConflictError:
            revision = await self._gone_revision(key)
            if revision is None:
                raise
            return await self._publish(key, value, self._headers(revision, ttl_s))

    async def update(self, key: str, value: bytes, revision: int, *, ttl_s: int | None = None) -> int:
        """Raises `KeyConflictError` when the key has moved past `revision`."""
        return await self._publish(key, value, self._headers(revision, ttl_s))

    async def delete(self, key: str, revision: int | None = None, *, ttl_s: int | None = None) -> None:
        """With `ttl_s` the mark of the deletion goes as well. Raises `KeyConflictError` when past `revision`."""
        headers = {_OPERATION: "DEL"}
        if revision is not None:
            headers[EXPECTED] = str(revision)
        if ttl_s is not None:
            headers[_TTL] = str(ttl_s)
        await self._publish(key, b"", headers)

    async def _gone_revision(self, key: str) -> int | None:
        try:
            message = await self._bus.js.get_last_msg(self._stream, self._subject(key))
        except nats.js.errors.NotFoundError:
            return 0
        except (nats.errors.Error, TimeoutError) as error:
            raise _unavailable(error) from error
        return int(message.seq or 0) if (message.headers or {}).get(_OPERATION) in _GONE else None

    @staticmethod
    def _headers(revision: int, ttl_s: int | None) -> dict[str, str]:
        headers = {EXPECTED: str(revision)}
        if ttl_s is not None:
            headers[_TTL] = str(ttl_s)
        return headers

    async def _publish(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        try:
            ack = await self._bus.js.publish(self._subject(key), value, headers=headers or None, timeout=_TIMEOUT_S)
        except nats.js.errors.APIError as error:
            if error.err_code == _WRONG_LAST_SEQUENCE:
                raise KeyConflictError(key) from error
            raise _unavailable(error) from error
        except (nats.errors.Error, TimeoutError) as error:
            raise _unavailable(error) from error
        return ack.seq
