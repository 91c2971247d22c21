"""A durable that takes the place of earlier ones: an installation goes on where it was, and nothing is left behind."""

from __future__ import annotations

import pytest
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

from placet.contracts.topology import DURABLES
from placet.messaging.append import Appender, NewEvent
from placet.messaging.provision import provision
from placet.messaging.work_queue import Job, WorkQueue
from placet.testkit.builders import Keys, viewed
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

KEYS = Keys()
STORED = next(durable for durable in DURABLES if durable.name == "approval__stored-v1")
DECIDED, PROJECTION = STORED.replaces


async def _append(rig: NatsRig, *entities: str) -> None:
    appender = Appender(await rig.bus("approval"), "approval", "APPROVALS", KEYS.approval_signer())
    for entity in entities:
        await appender.append("acme", NewEvent("approved", entity, viewed(entity)), 0)


async def _deal_with(rig: NatsRig, durable: str, count: int) -> None:
    """As the service of an earlier version did with its first `count` events."""
    bus = await rig.bus("provision")
    subscription = await bus.js.pull_subscribe_bind(durable, "APPROVALS")
    for message in await subscription.fetch(count):
        await message.ack_sync()


async def _earlier(rig: NatsRig) -> None:
    """What an earlier version had provisioned."""
    bus = await rig.bus("provision")
    await bus.js.delete_consumer("APPROVALS", STORED.name)
    for name in (DECIDED, PROJECTION):
        config = ConsumerConfig(
            durable_name=name, filter_subject="placet.*.approval.evt.approved.v1.*", ack_policy=AckPolicy.EXPLICIT
        )
        await bus.js.add_consumer("APPROVALS", config)


async def _consumers(rig: NatsRig) -> set[str]:
    bus, found = await rig.bus("provision"), set()
    for name in (STORED.name, DECIDED, PROJECTION):
        try:
            found.add((await bus.js.consumer_info("APPROVALS", name)).name)
        except NotFoundError:
            continue
    return found


@pytest.mark.spec("A10")
async def test_replacing_durable_begins_with_the_first_event_that_any_of_the_old_ones_missed(own_rig: NatsRig) -> None:
    await _earlier(own_rig)
    await _append(own_rig, "p1", "p2", "p3", "p4")
    await _deal_with(own_rig, DECIDED, 3)
    await _deal_with(own_rig, PROJECTION, 2)
    for _ in range(2):  # again, as at every start
        await provision(await own_rig.bus("provision"))
        assert await _consumers(own_rig) == {STORED.name}
    await _append(own_rig, "p5")
    handled: list[str] = []

    async def handler(job: Job) -> None:
        handled.append(job.event.entity)

    queue = WorkQueue(await own_rig.bus("approval"), STORED, handler, concurrency=1, verifier=KEYS.approval_verifier())
    await queue.start()
    await until(lambda: "p5" in handled)
    await queue.stop()
    assert handled == ["p3", "p4", "p5"]
    await provision(await own_rig.bus("provision"))
    info = await (await own_rig.bus("provision")).js.consumer_info("APPROVALS", STORED.name)
    assert not info.num_pending
    assert not info.num_ack_pending


@pytest.mark.spec("A10")
async def test_replacement_that_was_interrupted_is_finished_and_begins_no_second_time(own_rig: NatsRig) -> None:
    """Killed when the new one was there and the old ones still were, too: events that came since are its own."""
    await _earlier(own_rig)
    await _append(own_rig, "p1", "p2")
    await provision(await own_rig.bus("provision"))
    await _deal_with(own_rig, STORED.name, 2)
    bus = await own_rig.bus("provision")
    config = ConsumerConfig(durable_name=DECIDED, ack_policy=AckPolicy.EXPLICIT)
    await bus.js.add_consumer("APPROVALS", config)
    await provision(bus)
    assert await _consumers(own_rig) == {STORED.name}
    info = await bus.js.consumer_info("APPROVALS", STORED.name)
    assert not info.num_pending
    assert not info.num_ack_pending
