"""Reading stored events: all of one entity, or a page of a stream, by batched direct get (one request, many replies).

Direct get may be answered by a follower that lags by a moment. That is safe here: whoever decides on what was read
appends by compare-and-set, and a stale read only leads to a conflict and a second look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import nats.errors
import orjson
from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.envelope import Envelope
from placet.contracts.errors import ErrorCode, PlacetError
from placet.identity.signing import EventVerifier, Signature
from placet.messaging import wire
from placet.messaging.append import EXPECTED, SIGNATURE, SIGNATURE_KEY
from placet.messaging.connection import Bus

_BATCH = 256
_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Stored:
    """An event as it lies on its stream. `verified` is None when its owner does not sign."""

    seq: int
    subject: str
    name: str
    entity: str
    tenant: str
    envelope: Envelope
    verified: bool | None


def signature_of(headers: Mapping[str, str]) -> tuple[Signature | None, int]:
    """The signature and the previous sequence that a stored message's headers carry."""
    value, key = headers.get(SIGNATURE), headers.get(SIGNATURE_KEY)
    expected = headers.get(EXPECTED, "")
    return (Signature(key, value) if value and key else None), int(expected) if expected.isdigit() else -1


def stored(
    subject: str, seq: int, payload: bytes, headers: Mapping[str, str], verifier: EventVerifier | None
) -> Stored | None:
    """Take a stored message apart; None when it is not an event of ours at all."""
    try:
        parsed = subjects.parse(subject)
        envelope = wire.decode(payload)
    except (subjects.BadSubjectError, PlacetError):
        return None
    verified: bool | None = None
    if verifier:
        signature, previous = signature_of(headers)
        verified = verifier.verify(signature, subject, previous, payload)
    return Stored(seq, subject, parsed.name, parsed.entity or "", parsed.tenant, envelope, verified)


class EventReader:
    """Reads one stream. With a verifier, every event says whether its signature holds."""

    def __init__(self, bus: Bus, stream: str, verifier: EventVerifier | None = None) -> None:
        self._bus = bus
        self._stream = stream
        self._verifier = verifier

    async def entity(self, tenant: str, owner: str, entity_id: str, *, after: int = 0) -> list[Stored]:
        """All events of one entity after stream sequence `after`, oldest first.

        Raises `PlacetError(dependency_unavailable)` when the bus is away.
        """
        events: list[Stored] = []
        filter_ = subjects.entity(tenant, owner, entity_id)
        while True:
            page = await self.page(filter_, after=after, limit=_BATCH)
            events.extend(page)
            if len(page) < _BATCH:
                return events
            after = page[-1].seq

    async def page(self, filter_: str, *, after: int, limit: int) -> list[Stored]:
        """Up to `limit` events matching the subject filter after sequence `after`."""
        request = {"seq": after + 1, "next_by_subj": filter_, "batch": limit}
        return [event for message in await self._batch(request) if (event := self._stored(message))]

    async def last_of_each(self, filters: list[str], limit: int = 1024) -> list[Stored]:
        """The last event on each subject matching the filters."""
        request = {"multi_last": filters, "batch": limit}
        return [event for message in await self._batch(request) if (event := self._stored(message))]

    def _stored(self, message: Msg) -> Stored | None:
        headers = message.headers or {}
        return stored(headers["Nats-Subject"], int(headers["Nats-Sequence"]), message.data, headers, self._verifier)

    async def _batch(self, request: dict[str, object]) -> list[Msg]:
        client = self._bus.client
        inbox = client.new_inbox()
        messages: list[Msg] = []
        try:
            subscription = await client.subscribe(inbox)
            try:
                subject = f"{self._bus.settings.api_prefix}.DIRECT.GET.{self._stream}"
                await client.publish(subject, orjson.dumps(request), reply=inbox)
                while True:
                    message = await subscription.next_msg(timeout=_TIMEOUT_S)
                    status = (message.headers or {}).get("Status")
                    if status in ("204", "404"):
                        return messages
                    if status:
                        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, f"The event store answered {status}.")
                    messages.append(message)
            finally:
                await subscription.unsubscribe()
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The event store is not available.") from error
