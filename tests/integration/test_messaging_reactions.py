"""Event subscribers on a real server: no reaction is lost, whoever fails or dies in between (A7, A10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from placet.contracts import subjects
from placet.contracts.envelope import now
from placet.contracts.topology import DURABLES, Durable
from placet.identity.signing import EventSigner
from placet.messaging import work_queue
from placet.messaging.append import Appender, NewEvent
from placet.messaging.reading import Stored
from placet.messaging.timers import Timers, fire_subject
from placet.messaging.work_queue import Job, Signal, SignalHandler, SignalQueue, WorkQueue
from placet.observability.context import RequestContext, bound, current
from placet.testkit.builders import Keys, signed_message, viewed
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

KEYS = Keys()
PROJECTION = next(durable for durable in DURABLES if durable.name == "approval__projection-v1")
TIMERS = next(durable for durable in DURABLES if durable.name == "approval__timers-v1")
Alarmed = list[tuple[str, str]]
EventHandler = Callable[[Stored], Awaitable[None]]


@asynccontextmanager
async def _subscribed(
    rig: NatsRig,
    *,
    events: EventHandler | None = None,
    timers: SignalHandler | None = None,
    alarmed: Alarmed | None = None,
    durable: Durable = PROJECTION,
) -> AsyncIterator[None]:
    async def alarm(kind: str, subject: str) -> None:
        if alarmed is not None:
            alarmed.append((kind, subject))

    async def handle(job: Job) -> None:
        if events:
            await events(job.event)

    bus = await rig.bus(durable.user)
    queues: list[WorkQueue | SignalQueue] = []
    if events:
        verifier = KEYS.approval_verifier()
        queues.append(WorkQueue(bus, durable, handle, concurrency=8, verifier=verifier, alarm=alarm))
    if timers:
        queues.append(SignalQueue(bus, TIMERS, timers))
    for queue in queues:
        await queue.start()
    try:
        yield
    finally:
        for queue in queues:
            await queue.stop()


async def _append(rig: NatsRig, *entities: str, signer: EventSigner | None = None) -> None:
    bus = await rig.bus("approval")
    appender = Appender(bus, "approval", "APPROVALS", signer or KEYS.approval_signer())
    for entity in entities:
        await appender.append("acme", NewEvent("waiting-for-human", entity, viewed(entity)), 0)


async def _unacknowledged(rig: NatsRig, durable: Durable = PROJECTION) -> int:
    bus = await rig.bus("provision")
    info = await bus.js.consumer_info(durable.stream, durable.name)
    return (info.num_ack_pending or 0) + (info.num_pending or 0)


async def test_event_is_given_to_its_handler_with_the_request_it_belongs_to(own_rig: NatsRig) -> None:
    seen: list[tuple[str, RequestContext]] = []

    async def handler(event: Stored) -> None:
        seen.append((event.name, current()))

    async with _subscribed(own_rig, events=handler):
        with bound(RequestContext("req-7", "acme", "dave")):
            await _append(own_rig, "p1")
        await until(lambda: len(seen) == 1)
    ((name, context),) = seen
    assert name == "waiting-for-human"
    assert (context.request_id, context.tenant, context.actor) == ("req-7", "acme", "dave")
    assert context.causation_id is not None


async def test_event_whose_handler_fails_is_given_again_until_it_succeeds(
    own_rig: NatsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "_BACKOFF_S", (0.05,))
    tries: dict[str, int] = {}

    async def handler(event: Stored) -> None:
        tries[event.entity] = tries.get(event.entity, 0) + 1
        if event.entity == "p-stubborn" and tries[event.entity] < 12:
            raise ConnectionError("the database is away")

    async with _subscribed(own_rig, events=handler):
        await _append(own_rig, "p-stubborn", "p-easy")
        await until(lambda: tries.get("p-stubborn") == 12)
        await asyncio.sleep(0.3)
    assert tries == {"p-stubborn": 12, "p-easy": 1}
    assert await _unacknowledged(own_rig) == 0


@pytest.mark.spec("A2", "L2")
async def test_event_badly_signed_is_alarmed_never_handled_and_blocks_nothing(own_rig: NatsRig) -> None:
    handled: list[str] = []
    alarmed: Alarmed = []

    async def handler(event: Stored) -> None:
        handled.append(event.entity)

    forged = signed_message(
        KEYS.effect_signer(), subjects.event("acme", "approval", "waiting-for-human", "p-forged"), viewed("p-forged")
    )
    provision = await own_rig.bus("provision")
    await provision.js.publish(forged.subject, forged.payload, headers=forged.headers)
    await provision.js.publish(subjects.event("acme", "approval", "waiting-for-human", "p-garbage"), b"garbage")
    await _append(own_rig, "p-good")
    async with _subscribed(own_rig, events=handler, alarmed=alarmed):
        await until(lambda: handled == ["p-good"] and len(alarmed) == 2)
    assert sorted(alarmed) == [
        ("bad_signature", forged.subject),
        ("not_an_event", "placet.acme.approval.evt.waiting-for-human.v1.p-garbage"),
    ]
    assert await _unacknowledged(own_rig) == 0


@pytest.mark.spec("A10")
async def test_events_stored_while_nobody_listened_are_handled_later(own_rig: NatsRig) -> None:
    handled: set[str] = set()

    async def handler(event: Stored) -> None:
        handled.add(event.entity)

    await _append(own_rig, *(f"p{number}" for number in range(30)))
    async with _subscribed(own_rig, events=handler):
        await until(lambda: len(handled) == 30)
        assert await _unacknowledged(own_rig) == 0
    await _append(own_rig, "p-later")
    async with _subscribed(own_rig, events=handler):
        await until(lambda: "p-later" in handled)


@pytest.mark.spec("A10")
async def test_events_are_all_handled_although_the_server_was_killed(own_rig: NatsRig) -> None:
    handled: set[str] = set()

    async def handler(event: Stored) -> None:
        await asyncio.sleep(0.02)
        handled.add(event.entity)

    async with _subscribed(own_rig, events=handler):
        await _append(own_rig, *(f"a{number}" for number in range(60)))
        await until(lambda: len(handled) > 5)
        own_rig.kill9()
        await asyncio.sleep(0.1)
        await own_rig.start_bare()
        await _append(own_rig, *(f"b{number}" for number in range(5)))
        await until(lambda: len(handled) == 65)


async def test_events_on_two_replicas_are_each_handled_by_one(own_rig: NatsRig) -> None:
    first: list[str] = []
    second: list[str] = []

    async def one(event: Stored) -> None:
        await asyncio.sleep(0.01)
        first.append(event.entity)

    async def two(event: Stored) -> None:
        await asyncio.sleep(0.01)
        second.append(event.entity)

    async with _subscribed(own_rig, events=one), _subscribed(own_rig, events=two):
        await _append(own_rig, *(f"p{number}" for number in range(60)))
        await until(lambda: len(first) + len(second) == 60)
    assert sorted(first + second) == sorted(f"p{number}" for number in range(60))
    assert first
    assert second


async def test_subscribers_stopped_finish_what_they_have(own_rig: NatsRig) -> None:
    started, finished = asyncio.Event(), []

    async def handler(event: Stored) -> None:
        started.set()
        await asyncio.sleep(0.3)
        finished.append(event.entity)

    async with _subscribed(own_rig, events=handler):
        await _append(own_rig, "p-in-hand")
        await started.wait()
    assert finished == ["p-in-hand"]
    assert await _unacknowledged(own_rig) == 0


class Clock:
    """What fired when."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, datetime]] = []

    async def __call__(self, signal: Signal) -> None:
        assert signal.attempt >= 1
        self.fired.append((signal.subject, now()))


@pytest.mark.spec("A7")
async def test_timer_fires_once_at_its_time(own_rig: NatsRig) -> None:
    clock = Clock()
    timers = Timers(await own_rig.bus("approval"), "approval")
    async with _subscribed(own_rig, timers=clock):
        at = now() + timedelta(seconds=0.7)
        await timers.arm("acme", "p1", at)
        await until(lambda: bool(clock.fired))
        await asyncio.sleep(0.5)
    ((subject, fired_at),) = clock.fired
    assert subject == fire_subject("approval", "acme", "p1") == "timers.fire.approval.acme.p1"
    assert timedelta(0) <= fired_at - at < timedelta(seconds=1)


@pytest.mark.spec("A7")
async def test_timer_fires_after_everything_was_killed(own_rig: NatsRig) -> None:
    """Armed by a process that is gone, due while the server is down, handled by one that comes later."""
    bus = await own_rig.bus("approval")
    timers = Timers(bus, "approval")
    await timers.arm("acme", "p-missed", now() + timedelta(seconds=0.3))
    await timers.arm("acme", "p-later", now() + timedelta(seconds=1.5))
    await bus.close()
    own_rig.kill9()
    await asyncio.sleep(0.6)
    await own_rig.start_bare()
    clock = Clock()
    async with _subscribed(own_rig, timers=clock):
        await until(lambda: len(clock.fired) == 2)
    assert {subject for subject, _ in clock.fired} == {
        fire_subject("approval", "acme", "p-missed"),
        fire_subject("approval", "acme", "p-later"),
    }


@pytest.mark.spec("A7")
async def test_timer_armed_again_fires_at_the_new_time_only(own_rig: NatsRig) -> None:
    clock = Clock()
    timers = Timers(await own_rig.bus("approval"), "approval")
    async with _subscribed(own_rig, timers=clock):
        await timers.arm("acme", "p1", now() + timedelta(seconds=0.4))
        later = now() + timedelta(seconds=1.2)
        await timers.arm("acme", "p1", later)
        await until(lambda: bool(clock.fired))
    assert len(clock.fired) == 1
    assert clock.fired[0][1] >= later


@pytest.mark.spec("A7")
async def test_timer_for_the_past_fires_at_once(own_rig: NatsRig) -> None:
    clock = Clock()
    async with _subscribed(own_rig, timers=clock):
        await Timers(await own_rig.bus("approval"), "approval").arm("acme", "p1", now() - timedelta(hours=1))
        await until(lambda: len(clock.fired) == 1)


@pytest.mark.spec("A7")
async def test_timer_whose_handler_fails_fires_again(own_rig: NatsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_BACKOFF_S", (0.05,))
    tries: list[str] = []

    async def handler(signal: Signal) -> None:
        tries.append(signal.subject)
        if len(tries) < 3:
            raise ConnectionError("away")

    async with _subscribed(own_rig, timers=handler):
        await Timers(await own_rig.bus("approval"), "approval").arm("acme", "p1", now())
        await until(lambda: len(tries) == 3)
        await asyncio.sleep(0.2)
    assert len(tries) == 3


@pytest.mark.spec("I4")
@pytest.mark.parametrize(("tenant", "entity"), [("*", "p"), ("acme", ">"), ("a.b", "p"), ("acme", "p 1"), ("acme", "")])
async def test_timer_with_a_hostile_name_is_not_armed(connect: Any, tenant: str, entity: str) -> None:
    with pytest.raises(subjects.BadSubjectError):
        await Timers(await connect("approval"), "approval").arm(tenant, entity, now())
