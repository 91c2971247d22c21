"""Badly signed events, validly stored: ignored and alarmed, whichever way the signature is wrong (A2, L2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from placet.contracts import subjects
from placet.contracts.topology import DURABLES
from placet.messaging.append import EXPECTED, SIGNATURE, SIGNATURE_KEY, Appender, NewEvent
from placet.messaging.reading import EventReader
from placet.messaging.work_queue import Job, WorkQueue
from placet.testkit.builders import Keys, SignedMessage, approved, signed_message
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

pytestmark = pytest.mark.spec("A2", "L2")
KEYS = Keys()
SIGNER = KEYS.approval_signer()
APPROVED = next(durable for durable in DURABLES if durable.name == "tool-executor__approved-v1")


def _subject(entity: str, name: str = "approved", tenant: str = "acme") -> str:
    return subjects.event(tenant, "approval", name, entity)


def _genuine(entity: str) -> SignedMessage:
    return signed_message(SIGNER, _subject(entity), approved(entity))


def _without(message: SignedMessage, *names: str) -> SignedMessage:
    return replace(message, headers={key: value for key, value in message.headers.items() if key not in names})


def _with(message: SignedMessage, **headers: str) -> SignedMessage:
    renamed = {"signature": SIGNATURE, "key": SIGNATURE_KEY}
    return replace(message, headers=message.headers | {renamed[key]: value for key, value in headers.items()})


def _forgeries() -> dict[str, SignedMessage]:
    """By entity, each wrong in one way. All are stored by somebody who may write anything anywhere."""
    other = KEYS.effect_signer()
    by_other = signed_message(other, _subject("other-key"), approved("other-key"))
    return {
        "unsigned": _without(_genuine("unsigned"), SIGNATURE, SIGNATURE_KEY),
        "no-key": _without(_genuine("no-key"), SIGNATURE_KEY),
        "no-value": _without(_genuine("no-value"), SIGNATURE),
        "garbled": _with(_genuine("garbled"), signature="A" * 88),
        "other-key": by_other,
        "other-key-our-id": _with(
            signed_message(other, _subject("other-key-our-id"), approved("other-key-our-id")), key=SIGNER.key_id
        ),
        "other-entity": signed_message(
            SIGNER, _subject("other-entity"), approved("other-entity"), signed_as=_subject("prop-cheap")
        ),
        "other-name": signed_message(
            SIGNER, _subject("other-name"), approved("other-name"), signed_as=_subject("other-name", "viewed")
        ),
        "other-tenant": signed_message(
            SIGNER,
            _subject("other-tenant"),
            approved("other-tenant"),
            signed_as=_subject("other-tenant", tenant="globex"),
        ),
        "other-payload": replace(_genuine("other-payload"), payload=_genuine("other-payload").payload),
        "other-place": _moved(_genuine("other-place")),
        "no-place": _without(_genuine("no-place"), EXPECTED),
    }


def _moved(message: SignedMessage) -> SignedMessage:
    """Signed as following sequence 7, stored as the first."""
    elsewhere = signed_message(
        SIGNER, message.subject, approved(str(subjects.parse(message.subject).entity)), previous=7
    )
    return replace(elsewhere, headers=elsewhere.headers | {EXPECTED: "0"})


async def test_event_wrongly_signed_is_never_handled_and_always_alarmed(own_rig: NatsRig) -> None:
    forgeries = _forgeries()
    provision = await own_rig.bus("provision")
    for message in (*forgeries.values(), _genuine("genuine")):
        await provision.js.publish(message.subject, message.payload, headers=message.headers)
    handled: list[str] = []
    alarmed: list[tuple[str, str]] = []

    async def handler(job: Job) -> None:
        handled.append(job.event.entity)

    async def alarm(kind: str, subject: str) -> None:
        alarmed.append((kind, subject))

    executor = await own_rig.bus("tool-executor")
    queue = WorkQueue(executor, APPROVED, handler, concurrency=4, verifier=KEYS.approval_verifier(), alarm=alarm)
    await queue.start()
    try:
        await until(lambda: len(handled) + len(alarmed) == len(forgeries) + 1)
        await asyncio.sleep(0.2)
    finally:
        await queue.stop()
    assert handled == ["genuine"]
    assert sorted(alarmed) == sorted(("bad_signature", _subject(entity)) for entity in forgeries)
    info = await provision.js.consumer_info(APPROVED.stream, APPROVED.name)
    assert (info.num_ack_pending, info.num_pending) == (0, 0), "a refused event must not come again"
    reader = EventReader(executor, "APPROVALS", KEYS.approval_verifier())
    for entity in (*forgeries, "genuine"):
        events = await reader.entity("acme", "approval", entity)
        assert [event.verified for event in events] == [entity == "genuine"], entity


async def test_event_refused_without_an_alarm_handler_is_still_not_handled(own_rig: NatsRig) -> None:
    handled: list[str] = []

    async def handler(job: Job) -> None:
        handled.append(job.event.entity)

    provision = await own_rig.bus("provision")
    unsigned = _without(_genuine("unsigned"), SIGNATURE)
    await provision.js.publish(unsigned.subject, unsigned.payload, headers=unsigned.headers)
    approval = await own_rig.bus("approval")
    await Appender(approval, "approval", "APPROVALS", SIGNER).append(
        "acme", NewEvent("approved", "genuine", approved("genuine")), 0
    )
    queue = WorkQueue(
        await own_rig.bus("tool-executor"), APPROVED, handler, concurrency=4, verifier=KEYS.approval_verifier()
    )
    await queue.start()
    try:
        await until(lambda: handled == ["genuine"])
    finally:
        await queue.stop()
