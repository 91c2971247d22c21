"""Appends by compare-and-set, and signed events.

An append says which event of the entity it has seen last; the server refuses it if another one has come since. The
acknowledgement may be lost (the server was killed after writing): the writer then asks the stream which event follows
the one it expected. If that is its own, it has won; if not, it has lost. No outcome is guessed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg

from placet.contracts import subjects
from placet.contracts.envelope import Event, now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.identity.signing import EventSigner
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.observability import metrics
from placet.observability.context import RequestContext, current, new_id

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
MESSAGE_ID = "Nats-Msg-Id"
SIGNATURE = "Placet-Signature"
SIGNATURE_KEY = "Placet-Signature-Key"

_WRONG_LAST_SEQUENCE = (10071, 10164)
_TRY_TIMEOUT_S = 2.0
_BUDGET_S = 10.0


class ConflictError(Exception):
    """Another event was appended first. `last` is unknown: read the entity again."""


@dataclass(frozen=True, slots=True)
class Appended:
    """`seq` is the stream sequence, to be given as `expected` for the entity's next event."""

    seq: int
    message_id: str


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append. With `message_id` given (the same on every attempt), a repeated append is found out."""

    name: str
    entity: str
    data: Event
    message_id: str | None = None


class Appender:
    """Writes the events of one owner. With a signer, every event is signed."""

    def __init__(
        self,
        bus: Bus,
        owner: str,
        stream: str,
        signer: EventSigner | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._bus = bus
        self._owner = owner
        self._stream = stream
        self._signer = signer
        self._clock = clock

    async def append(
        self, tenant: str, event: NewEvent, expected: int, *, context: RequestContext | None = None
    ) -> Appended:
        """Append after stream sequence `expected` (0: the entity has no event yet).

        Raises `ConflictError` when the entity has moved on, `PlacetError(dependency_unavailable)` when the outcome
        could not be learned within ten seconds.
        """
        subject = subjects.event(tenant, self._owner, event.name, event.entity)
        entity = subjects.entity(tenant, self._owner, event.entity)
        message_id = f"{tenant}:{event.message_id}" if event.message_id else new_id("evt")
        payload = wire.encode(
            message_id=message_id,
            source=f"placet/{self._owner}",
            type_=f"placet.{self._owner}.{event.name}.v1",
            subject=event.entity,
            context=context or current(),
            tenant=tenant,
            data=event.data,
            time=self._clock(),
        )
        headers = {EXPECTED: str(expected), EXPECTED_SUBJECT: entity, MESSAGE_ID: message_id}
        if self._signer:
            signature = self._signer.sign(subject, expected, payload)
            headers |= {SIGNATURE: signature.value, SIGNATURE_KEY: signature.key_id}
        return await self._settle(subject, entity, payload, headers, expected)

    async def _settle(
        self, subject: str, entity: str, payload: bytes, headers: dict[str, str], expected: int
    ) -> Appended:
        end = time.monotonic() + _BUDGET_S
        message_id = headers[MESSAGE_ID]
        while time.monotonic() < end:
            try:
                seq = await self._bus.requests.store(subject, payload, headers=headers, timeout_s=_TRY_TIMEOUT_S)
                metrics.APPENDS.labels(self._owner, "ok").inc()
                return Appended(seq, message_id)
            except nats.js.errors.APIError as error:
                if error.err_code not in _WRONG_LAST_SEQUENCE:
                    raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The event store refused the event.") from error
                mine = await self._successor(entity, expected)
                if mine is None:
                    await asyncio.sleep(0.1)
                    continue
                if mine.headers and mine.headers.get(MESSAGE_ID) == message_id:
                    metrics.APPENDS.labels(self._owner, "ok_after_lost_ack").inc()
                    return Appended(int(mine.seq or 0), message_id)
                metrics.APPENDS.labels(self._owner, "conflict").inc()
                raise ConflictError(entity) from error
            except (nats.errors.Error, TimeoutError):
                await asyncio.sleep(0.1 + random.random() * 0.1)  # noqa: S311 - jitter, not a secret
        metrics.APPENDS.labels(self._owner, "unknown").inc()
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The event store did not confirm in time.")

    async def _successor(self, entity: str, expected: int) -> RawStreamMsg | None:
        """The first event of the entity after `expected`, read from the stream's leader."""
        try:
            return await self._bus.js.get_msg(self._stream, seq=expected + 1, subject=entity, next=True)
        except (nats.errors.Error, TimeoutError):
            return None


class EventWriter:
    """Appends events of an owner whose entities nobody decides by: no compare-and-set, but stored before it goes on."""

    def __init__(self, bus: Bus, owner: str) -> None:
        self._bus = bus
        self._owner = owner
        self._source = f"placet/{bus.settings.user}"

    async def write(self, tenant: str, name: str, entity: str, record: Event, *, once: str | None = None) -> None:
        """With `once` given (the same on every attempt), an event written again at once is stored a single time.

        Raises `PlacetError(dependency_unavailable)` when the event could not be stored.
        """
        message_id = f"{tenant}:{once}" if once else new_id("aud" if self._owner == "audit" else "evt")
        payload = wire.encode(
            message_id=message_id,
            source=self._source,
            type_=f"placet.{self._owner}.{name}.v1",
            subject=entity,
            context=current(),
            tenant=tenant,
            data=record,
        )
        subject = subjects.event(tenant, self._owner, name, entity)
        for attempt in (1, 2, 3):
            try:
                headers = {MESSAGE_ID: message_id}
                await self._bus.requests.store(subject, payload, headers=headers, timeout_s=_TRY_TIMEOUT_S)
                return
            except (nats.errors.Error, TimeoutError) as error:
                if attempt == 3:
                    raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The event was not stored.") from error
                await asyncio.sleep(0.1 * attempt)


class AuditWriter(EventWriter):
    """Appends audit records: what could not be stored is not answered, so there is no unaudited work."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, "audit")
