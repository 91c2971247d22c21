"""Appends by compare-and-set on a real server: one winner, and everybody learns the truth (A2)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import nats.errors
import pytest

from placet.contracts import subjects
from placet.contracts.audit import AuditRecord
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging import append as append_module
from placet.messaging.append import Appended, Appender, AuditWriter, ConflictError, NewEvent
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader
from placet.observability.context import new_id
from placet.testkit.builders import Keys, viewed
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

KEYS = Keys()


def _appender(bus: Bus) -> Appender:
    return Appender(bus, "approval", "APPROVALS", KEYS.approval_signer())


def _reader(bus: Bus) -> EventReader:
    return EventReader(bus, "APPROVALS", KEYS.approval_verifier())


def _event(entity: str, by: str, message_id: str | None = None) -> NewEvent:
    return NewEvent("viewed", entity, viewed(entity, by), message_id)


async def _decide(appender: Appender, entity: str, expected: int, number: int) -> tuple[str, int]:
    try:
        await appender.append("acme", _event(entity, f"decider-{number}"), expected)
    except ConflictError:
        return "conflict", number
    return "won", number


@pytest.mark.spec("A2")
async def test_append_by_fifty_deciders_has_exactly_one_winner_each_round(nats_rig: NatsRig, connect: Any) -> None:
    appenders = [_appender(await connect("approval")) for _ in range(5)]
    reader = _reader(await connect("approval"))
    for _ in range(8):
        entity = new_id("prop")
        first = await appenders[0].append("acme", _event(entity, "requester"), 0)
        results = await asyncio.gather(
            *(_decide(appenders[number % 5], entity, first.seq, number) for number in range(50))
        )
        winners = [number for outcome, number in results if outcome == "won"]
        assert len(winners) == 1
        stored = await reader.entity("acme", "approval", entity)
        assert [event.envelope.data["by"] for event in stored] == ["requester", f"decider-{winners[0]}"]
        assert all(event.verified for event in stored)


@pytest.mark.spec("A2")
async def test_append_while_the_server_is_killed_tells_every_decider_the_truth(
    own_rig: NatsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_module, "_TRY_TIMEOUT_S", 0.3)
    appenders = [_appender(await own_rig.bus("approval")) for _ in range(5)]
    reading = await own_rig.bus("approval")
    reader = _reader(reading)
    for round_ in range(4):
        entity = new_id("prop")
        first = await appenders[0].append("acme", _event(entity, "requester"), 0)
        race = [asyncio.create_task(_decide(appenders[number % 5], entity, first.seq, number)) for number in range(50)]
        await asyncio.sleep(random.uniform(0.0005, 0.012))
        own_rig.kill9()
        await asyncio.sleep(0.05)
        await own_rig.start_bare()
        outcomes = await asyncio.gather(*race)
        assert Counter(outcome for outcome, _ in outcomes) == {"won": 1, "conflict": 49}, f"round {round_}"
        winner = next(number for outcome, number in outcomes if outcome == "won")
        await until(reading.ready)
        stored = await reader.entity("acme", "approval", entity)
        assert [event.envelope.data["by"] for event in stored] == ["requester", f"decider-{winner}"]


class LossyPublish:
    """Loses the acknowledgement (or the message itself) of the first attempts."""

    def __init__(self, bus: Bus, *, arrives: bool, losses: int = 1) -> None:
        self._publish = bus.requests.store
        self._arrives = arrives
        self.left = losses
        bus.requests.store = self  # type: ignore[method-assign]

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left:
            self.left -= 1
            if self._arrives:
                await self._publish(*args, **kwargs)
            raise nats.errors.TimeoutError
        return await self._publish(*args, **kwargs)


@pytest.mark.spec("A2")
@pytest.mark.parametrize("arrives", [True, False], ids=["acknowledgement lost", "message lost"])
@pytest.mark.parametrize("losses", [1, 3])
async def test_append_with_a_loss_is_stored_once_and_known_to_be(connect: Any, arrives: bool, losses: int) -> None:
    bus = await connect("approval")
    entity = new_id("prop")
    LossyPublish(bus, arrives=arrives, losses=losses)
    done = await _appender(bus).append("acme", _event(entity, "dave"), 0)
    stored = await _reader(bus).entity("acme", "approval", entity)
    assert [event.seq for event in stored] == [done.seq]


@pytest.mark.spec("A2")
async def test_append_lost_to_another_after_a_loss_is_a_conflict(connect: Any) -> None:
    bus, other = await connect("approval"), await connect("approval")
    entity = new_id("prop")
    lossy = LossyPublish(bus, arrives=False, losses=1)
    race = asyncio.create_task(_appender(bus).append("acme", _event(entity, "slow"), 0))
    await until(lambda: lossy.left == 0)
    won = await _appender(other).append("acme", _event(entity, "fast"), 0)
    with pytest.raises(ConflictError):
        await race
    assert [event.seq for event in await _reader(bus).entity("acme", "approval", entity)] == [won.seq]


@pytest.mark.spec("A2")
async def test_append_repeated_with_its_message_id_is_the_first_one(connect: Any) -> None:
    bus = await connect("approval")
    entity = new_id("prop")
    first = await _appender(bus).append("acme", _event(entity, "dave", f"{entity}:viewed"), 0)
    again = await _appender(bus).append("acme", _event(entity, "dave", f"{entity}:viewed"), 0)
    assert again == first == Appended(first.seq, f"acme:{entity}:viewed")
    assert len(await _reader(bus).entity("acme", "approval", entity)) == 1


async def test_append_with_a_stale_expectation_is_a_conflict(connect: Any) -> None:
    bus = await connect("approval")
    appender, entity = _appender(bus), new_id("prop")
    first = await appender.append("acme", _event(entity, "one"), 0)
    second = await appender.append("acme", _event(entity, "two"), first.seq)
    for stale in (0, first.seq):
        with pytest.raises(ConflictError):
            await appender.append("acme", _event(entity, "late"), stale)
    assert second.seq > first.seq
    assert len(await _reader(bus).entity("acme", "approval", entity)) == 2


@pytest.mark.spec("I4")
async def test_append_of_two_tenants_with_the_same_entity_do_not_meet(connect: Any) -> None:
    bus = await connect("approval")
    appender, entity = _appender(bus), new_id("prop")
    await appender.append("acme", _event(entity, "alice", f"{entity}:v"), 0)
    await appender.append("globex", _event(entity, "alice", f"{entity}:v"), 0)
    for tenant in ("acme", "globex"):
        (event,) = await _reader(bus).entity(tenant, "approval", entity)
        assert (event.tenant, event.envelope.tenant) == (tenant, tenant)


@pytest.mark.spec("I4")
@pytest.mark.parametrize(
    ("tenant", "entity"), [("*", "p1"), ("acme", "*"), ("acme.x", "p1"), ("acme", "p1\n"), ("", "p")]
)
async def test_append_with_a_hostile_name_stores_nothing(connect: Any, tenant: str, entity: str) -> None:
    with pytest.raises(subjects.BadSubjectError):
        await _appender(await connect("approval")).append(tenant, _event(entity, "eve"), 0)


async def test_append_while_the_bus_is_down_fails_and_is_not_sent_later(
    own_rig: NatsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_module, "_BUDGET_S", 0.5)
    bus = await own_rig.bus("approval")
    own_rig.stop()
    await until(lambda: not bus.client.is_connected)
    with pytest.raises(PlacetError) as caught:
        await _appender(bus).append("acme", _event("prop-ghost", "dave"), 0)
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    await own_rig.start_bare()
    await until(bus.ready)
    assert await _reader(bus).entity("acme", "approval", "prop-ghost") == []


def _record() -> AuditRecord:
    return AuditRecord(service="approval", action="decide", outcome="ok", request_id="req-1")


@pytest.mark.spec("L1")
async def test_audit_record_is_on_disk_when_write_returns(connect: Any) -> None:
    bus = await connect("approval")
    entity = new_id("run")
    await AuditWriter(bus).write("acme", "tool-decided", entity, _record())
    (stored,) = await EventReader(bus, "AUDIT").entity("acme", "audit", entity)
    assert (stored.name, stored.envelope.source) == ("tool-decided", "placet/approval")
    assert stored.envelope.data["action"] == "decide"


@pytest.mark.spec("L1")
async def test_audit_record_with_a_lost_acknowledgement_is_stored_once(connect: Any) -> None:
    bus = await connect("approval")
    entity = new_id("run")
    LossyPublish(bus, arrives=True, losses=2)
    await AuditWriter(bus).write("acme", "tool-decided", entity, _record())
    assert len(await EventReader(bus, "AUDIT").entity("acme", "audit", entity)) == 1


@pytest.mark.spec("L1")
async def test_audit_record_that_cannot_be_stored_is_an_error_of_the_work(own_rig: NatsRig) -> None:
    bus = await own_rig.bus("approval")
    own_rig.stop()
    await until(lambda: not bus.client.is_connected)
    with pytest.raises(PlacetError) as caught:
        await AuditWriter(bus).write("acme", "tool-decided", "run-1", _record())
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
