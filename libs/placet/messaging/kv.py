"""Key-value buckets: leader reads, create and update by compare-and-set, per-key expiry.

Thin on purpose: the client library's own bucket object asks for stream rights that no service here holds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import nats.errors
import nats.js.errors
import orjson

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.topology import BUCKETS
from placet.messaging import direct
from placet.messaging.append import EXPECTED
from placet.messaging.connection import Bus

_OPERATION = "KV-Operation"
_TTL = "Nats-TTL"
_GONE = (f"{_OPERATION}: DEL", f"{_OPERATION}: PURGE")
_ENDED = ("DEL", "PURGE")
_MARKER = "Nats-Marker-Reason:"
_NO_MESSAGE = 10037
_TIMEOUT_S = 3.0
_MARK_S = 3600
_WRONG_LAST_SEQUENCE = 10071


class KeyConflictError(Exception):
    """The key has changed since it was read (or exists already, on create)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`revision` goes into the next `update`; `stored_at` is when the server stored it, by the server's clock."""

    value: bytes
    revision: int
    stored_at: datetime | None = field(default=None, compare=False)


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
        self._keys_expire = any(one.key_ttl for one in BUCKETS if one.name == bucket)

    def _subject(self, key: str) -> str:
        """A wildcard in a key would read, or overwrite, somebody else's."""
        return f"$KV.{self._bucket}." + ".".join(subjects.token(part) for part in key.split("."))

    async def get(self, key: str) -> Entry | None:
        """The latest value, from the bucket's leader; None when there is none (nor can be, for an impossible key)."""
        try:
            message = await self._last(key)
        except subjects.BadSubjectError:
            return None
        if message is None or message.gone:
            return None
        return Entry(message.value, message.revision, message.time)

    async def _last(self, key: str) -> _Last | None:
        """Asked of the leader: `direct` would be answered by any replica, a moment late."""
        request = orjson.dumps({"last_by_subj": self._subject(key)})
        subject = f"{self._bus.settings.api_prefix}.STREAM.MSG.GET.{self._stream}"
        try:
            answer = await self._bus.requests.api(subject, request, timeout_s=_TIMEOUT_S)
            return _last(answer["message"])
        except nats.js.errors.APIError as error:
            if error.err_code == _NO_MESSAGE:
                return None
            raise _unavailable(error) from error
        except (nats.errors.Error, TimeoutError, KeyError, ValueError) as error:
            raise _unavailable(error) from error

    async def scan(self, *parts: str) -> list[tuple[str, Entry]]:
        """Every key of this form with its value, `*` standing for any one token. A follower may lag by a moment.

        Raises `PlacetError(dependency_unavailable)`, `BadSubjectError` for a part that is no token.
        """
        pattern = ".".join(part if part == subjects.ANY else subjects.token(part) for part in parts)
        start, found, after = f"$KV.{self._bucket}.", list[tuple[str, Entry]](), 0
        while True:
            request: dict[str, object] = {"seq": after + 1, "next_by_subj": start + pattern, "batch": direct.BATCH}
            messages = await direct.batch(self._bus, self._stream, request)
            for message in messages:
                headers = message.headers or {}
                after = direct.sequence(message)
                gone = headers.get(_OPERATION) in _ENDED or headers.get(_MARKER.removesuffix(":"))
                if not gone:
                    found.append((headers["Nats-Subject"].removeprefix(start), Entry(message.data or b"", after)))
            if len(messages) < direct.BATCH:
                return found

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

    async def change(self, key: str, change: Callable[[bytes | None], bytes | None], *, attempts: int) -> None:
        """Put what `change` makes of the value (None for none), by compare-and-set; called anew for each attempt.

        Where it answers None, the key is left as it is. Raises `KeyConflictError` when others came first each time.
        """
        for _ in range(attempts):
            entry = await self.get(key)
            value = change(entry.value if entry else None)
            try:
                if value is not None and entry:
                    await self.update(key, value, entry.revision)
                elif value is not None:
                    await self.create(key, value)
            except KeyConflictError:
                continue
            return
        raise KeyConflictError(key)

    async def delete(self, key: str, revision: int | None = None, *, ttl_s: int | None = None) -> None:
        """Raises `KeyConflictError` when the key has moved past `revision`.

        The mark of the deletion goes as well: after `ttl_s` (an hour, unless said) in a bucket whose keys expire one
        by one, else with the age of the bucket. It must not go before the value itself would have expired: a server
        that is killed after the mark has gone no longer knows of the deletion, and the value is there again.
        """
        headers = {_OPERATION: "DEL"}
        if revision is not None:
            headers[EXPECTED] = str(revision)
        if self._keys_expire:
            headers[_TTL] = str(_MARK_S if ttl_s is None else ttl_s)
        await self._publish(key, b"", headers)

    async def _gone_revision(self, key: str) -> int | None:
        message = await self._last(key)
        if message is None:
            return 0
        return message.revision if message.gone else None

    @staticmethod
    def _headers(revision: int, ttl_s: int | None) -> dict[str, str]:
        headers = {EXPECTED: str(revision)}
        if ttl_s is not None:
            headers[_TTL] = str(ttl_s)
        return headers

    async def _publish(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        try:
            return await self._bus.requests.store(self._subject(key), value, headers=headers, timeout_s=_TIMEOUT_S)
        except nats.js.errors.APIError as error:
            if error.err_code == _WRONG_LAST_SEQUENCE:
                raise KeyConflictError(key) from error
            raise _unavailable(error) from error
        except (nats.errors.Error, TimeoutError) as error:
            raise _unavailable(error) from error


@dataclass(frozen=True, slots=True)
class _Last:
    value: bytes
    revision: int
    time: datetime | None
    gone: bool


def _last(message: dict[str, Any]) -> _Last:
    headers = base64.b64decode(message.get("hdrs", "")).decode() if "hdrs" in message else ""
    gone = any(line in _GONE or line.startswith(_MARKER) for line in headers.split("\r\n"))
    value, time = base64.b64decode(message.get("data", "")), message.get("time")
    return _Last(value, int(message["seq"]), datetime.fromisoformat(time) if time else None, gone)
