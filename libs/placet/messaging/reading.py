"""Reading stored events: all of one entity, or a page of a stream, by batched direct get (one request, many replies).

Direct get may be answered by a follower that lags by a moment. That is safe here: whoever decides on what was read
appends by compare-and-set, and a stale read only leads to a conflict and a second look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.envelope import Envelope
from placet.contracts.errors import PlacetError
from placet.contracts.stored import StoredBytes
from placet.identity.signing import EventVerifier, Signature
from placet.messaging import direct, wire
from placet.messaging.append import EXPECTED, SIGNATURE, SIGNATURE_KEY
from placet.messaging.connection import Bus

_BATCH = direct.BATCH
_DIGITS = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Stored:
    """An event as it lies on its stream. `verified` is None when its owner does not sign.

    `previous` is the sequence of the entity's event before it, as its writer (and its signature) says; -1: unsaid.
    """

    seq: int
    subject: str
    name: str
    entity: str
    tenant: str
    envelope: Envelope
    verified: bool | None
    previous: int = -1


def signature_of(headers: Mapping[str, str]) -> tuple[Signature | None, int]:
    """The signature and the previous sequence that a stored message's headers carry."""
    value, key = headers.get(SIGNATURE), headers.get(SIGNATURE_KEY)
    expected = headers.get(EXPECTED, "")
    return (Signature(key, value) if value and key else None), int(expected) if _DIGITS.fullmatch(expected) else -1


def stored(
    subject: str, seq: int, payload: bytes, headers: Mapping[str, str], verifier: EventVerifier | None
) -> Stored | None:
    """Take a stored message apart; None when it is not an event of ours at all."""
    try:
        parsed = subjects.parse(subject)
        envelope = wire.decode(payload)
    except (subjects.BadSubjectError, PlacetError):
        return None
    signature, previous = signature_of(headers)
    verified = verifier.verify(signature, subject, previous, payload) if verifier else None
    return Stored(seq, subject, parsed.name, parsed.entity or "", parsed.tenant, envelope, verified, previous)


def _raw(message: Msg) -> StoredBytes:
    headers = message.headers or {}
    return StoredBytes(
        direct.sequence(message), headers["Nats-Subject"], message.data, headers, headers.get("Nats-Time-Stamp", "")
    )


class EventReader:
    """Reads one stream. With a verifier, every event says whether its signature holds."""

    def __init__(self, bus: Bus, stream: str, verifier: EventVerifier | None = None) -> None:
        self._bus = bus
        self._stream = stream
        self._verifier = verifier

    async def entity(self, tenant: str, owner: str, entity_id: str, *, after: int = 0) -> list[Stored]:
        """All events of one entity after stream sequence `after`, oldest first; none for an impossible id.

        An event that does not follow the one read before it is not `verified`: a genuine event stored a second time,
        at another place in the history, keeps its signature but not its predecessor.
        Raises `PlacetError(dependency_unavailable)` when the bus is away.
        """
        try:
            filter_ = subjects.entity(tenant, owner, entity_id)
        except subjects.BadSubjectError:
            return []
        events: list[Stored] = []
        previous = 0 if after == 0 else None
        while True:
            messages = await self._batch({"seq": after + 1, "next_by_subj": filter_, "batch": _BATCH})
            for message in messages:
                event = self._stored(message)
                if event:
                    misplaced = event.verified is True and previous is not None and event.previous != previous
                    events.append(replace(event, verified=False) if misplaced else event)
                previous = after = direct.sequence(message)
            if len(messages) < _BATCH:
                return events

    async def page(self, filter_: str, *, after: int, limit: int) -> list[Stored]:
        """Up to `limit` events matching the subject filter after sequence `after`."""
        request = {"seq": after + 1, "next_by_subj": filter_, "batch": limit}
        return [event for message in await self._batch(request) if (event := self._stored(message))]

    async def raw_page(self, filter_: str, *, after: int, limit: int = _BATCH) -> list[StoredBytes]:
        """Like `page`, but every message as it lies there, whatever it is: for seals, and for whoever checks them."""
        request = {"seq": after + 1, "next_by_subj": filter_, "batch": limit}
        return [_raw(message) for message in await self._batch(request)]

    async def raw_last(self, subject: str) -> StoredBytes | None:
        """The last message on a subject as it lies there."""
        messages = await self._batch({"multi_last": [subject], "batch": 1})
        return _raw(messages[-1]) if messages else None

    async def last_of_each(self, filters: list[str], limit: int = 1024) -> list[Stored]:
        """The last event on each subject matching the filters."""
        request = {"multi_last": filters, "batch": limit}
        return [event for message in await self._batch(request) if (event := self._stored(message))]

    def _stored(self, message: Msg) -> Stored | None:
        headers = message.headers or {}
        return stored(headers["Nats-Subject"], direct.sequence(message), message.data, headers, self._verifier)

    async def _batch(self, request: dict[str, object]) -> list[Msg]:
        return await direct.batch(self._bus, self._stream, request)
