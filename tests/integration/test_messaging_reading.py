"""Reading stored events on a real server: whole histories, pages, and which events can be believed (L2)."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.append import EXPECTED_SUBJECT, Appender, NewEvent
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader
from placet.observability.context import new_id
from placet.testkit.builders import Keys, proposed, signed_message, viewed
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

KEYS = Keys()


def _reader(bus: Bus) -> EventReader:
    return EventReader(bus, "APPROVALS", KEYS.approval_verifier())


async def _history(bus: Bus, entity: str, length: int, tenant: str = "acme") -> list[int]:
    appender = Appender(bus, "approval", "APPROVALS", KEYS.approval_signer())
    sequences, last = [], 0
    for number in range(length):
        last = (await appender.append(tenant, NewEvent("viewed", entity, viewed(entity, f"by-{number}")), last)).seq
        sequences.append(last)
    return sequences


async def test_history_longer_than_a_batch_is_read_whole_and_in_order(connect: Any) -> None:
    bus, entity = await connect("approval"), new_id("prop")
    sequences = await _history(bus, entity, 600)
    events = await _reader(bus).entity("acme", "approval", entity)
    assert [event.seq for event in events] == sequences
    assert [event.previous for event in events] == [0, *sequences[:-1]]
    assert all(event.verified for event in events)
    assert [event.envelope.data["by"] for event in events[:3]] == ["by-0", "by-1", "by-2"]


async def test_history_after_a_sequence_is_read_from_there(connect: Any) -> None:
    bus, entity = await connect("approval"), new_id("prop")
    sequences = await _history(bus, entity, 5)
    events = await _reader(bus).entity("acme", "approval", entity, after=sequences[1])
    assert [event.seq for event in events] == sequences[2:]
    assert all(event.verified for event in events)


@pytest.mark.spec("I3", "I4")
@pytest.mark.parametrize(
    ("tenant", "entity"), [("acme", "*"), ("*", "p"), ("acme", ">"), ("acme", "a.b"), ("acme", ""), ("acme", "none")]
)
async def test_history_of_an_impossible_or_absent_id_is_empty(connect: Any, tenant: str, entity: str) -> None:
    bus = await connect("approval")
    await _history(bus, new_id("prop"), 1)
    assert await _reader(bus).entity(tenant, "approval", entity) == []


@pytest.mark.spec("I4")
async def test_history_of_another_tenant_is_not_read(connect: Any) -> None:
    bus, entity = await connect("approval"), new_id("prop")
    await _history(bus, entity, 2, tenant="globex")
    assert await _reader(bus).entity("acme", "approval", entity) == []
    assert len(await _reader(bus).entity("globex", "approval", entity)) == 2


async def test_page_gives_at_most_its_limit_and_continues_after_it(connect: Any) -> None:
    bus, tenant = await connect("approval"), new_id("tenant")
    for number in range(7):
        await _history(bus, f"p{number}", 1, tenant=tenant)
    filter_ = subjects.event_filter(tenant, "approval", "viewed", "*")
    first = await _reader(bus).page(filter_, after=0, limit=4)
    rest = await _reader(bus).page(filter_, after=first[-1].seq, limit=4)
    assert [event.entity for event in (*first, *rest)] == [f"p{number}" for number in range(7)]
    assert await _reader(bus).page(filter_, after=rest[-1].seq, limit=4) == []


async def test_last_of_each_gives_the_newest_event_of_every_subject(connect: Any) -> None:
    bus, tenant = await connect("approval"), new_id("tenant")
    newest = {}
    for entity in ("p1", "p2"):
        newest[entity] = (await _history(bus, entity, 3, tenant=tenant))[-1]
    found = await _reader(bus).last_of_each([subjects.event_filter(tenant, "approval", "viewed", "*")])
    assert {event.entity: event.seq for event in found} == newest


@pytest.mark.spec("L2")
async def test_event_copied_to_a_later_place_is_not_believed(connect: Any) -> None:
    """A genuine event stored a second time: its signature holds, its place does not."""
    approval, provision = await connect("approval"), await connect("provision")
    entity = new_id("prop")
    subject = subjects.event("acme", "approval", "proposed", entity)
    genuine = signed_message(KEYS.approval_signer(), subject, proposed(entity))
    await approval.js.publish(subject, genuine.payload, headers=genuine.headers)
    replayed = genuine.headers | {
        "Nats-Msg-Id": new_id("evt"),
        # Satisfies the server's check with a subject on which nothing was stored.
        EXPECTED_SUBJECT: subjects.event("acme", "approval", "expired", entity),
    }
    await provision.js.publish(subject, genuine.payload, headers=replayed)
    first, second = await _reader(approval).entity("acme", "approval", entity)
    assert (first.verified, second.verified) == (True, False)
    assert second.envelope == first.envelope


@pytest.mark.spec("L2")
async def test_event_after_a_foreign_one_is_still_believed(connect: Any) -> None:
    """Garbage in a history is passed over and does not discredit what its owner appends after it."""
    approval, provision = await connect("approval"), await connect("provision")
    entity = new_id("prop")
    (first,) = await _history(approval, entity, 1)
    garbage = await provision.js.publish(subjects.event("acme", "approval", "viewed", entity), b"garbage")
    appender = Appender(approval, "approval", "APPROVALS", KEYS.approval_signer())
    last = await appender.append("acme", NewEvent("viewed", entity, viewed(entity, "after")), garbage.seq)
    events = await _reader(approval).entity("acme", "approval", entity)
    assert [(event.seq, event.verified) for event in events] == [(first, True), (last.seq, True)]


async def test_events_read_without_a_verifier_say_nothing_about_truth(connect: Any) -> None:
    bus, entity = await connect("approval"), new_id("prop")
    await _history(bus, entity, 1)
    (event,) = await EventReader(bus, "APPROVALS").entity("acme", "approval", entity)
    assert event.verified is None


async def test_reading_while_the_bus_is_down_is_unavailable_never_empty(own_rig: NatsRig) -> None:
    bus = await own_rig.bus("approval")
    await _history(bus, "p1", 1)
    own_rig.kill9()
    await until(lambda: not bus.client.is_connected)
    with pytest.raises(PlacetError) as caught:
        await _reader(bus).entity("acme", "approval", "p1")
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    await own_rig.start_bare()
    await until(bus.ready)
    assert len(await _reader(bus).entity("acme", "approval", "p1")) == 1


@pytest.mark.spec("U6")
async def test_queued_run_is_visible_to_the_gateway_before_anyone_takes_it(connect: Any) -> None:
    gateway, run_id = await connect("gateway"), new_id("run")
    subject = subjects.command("acme", "agent", "start-run", run_id)
    message = signed_message(KEYS.approval_signer(), subject, viewed(run_id))
    await gateway.js.publish(subject, message.payload)
    (queued,) = await EventReader(gateway, "RUN_QUEUE").page(subject, after=0, limit=1)
    assert queued.entity == run_id
    assert await EventReader(gateway, "RUN_QUEUE").page(subject + "x", after=0, limit=1) == []
