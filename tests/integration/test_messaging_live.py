"""Live events on a real server: only what is stored shows, to those who may follow it (U5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.runs import RunEvent
from placet.messaging.append import Appender, ConflictError, NewEvent
from placet.messaging.live import LiveEvents
from placet.messaging.reading import EventReader, Stored
from placet.observability.context import new_id
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until


def _event(run_id: str, number: int, who: str = "") -> NewEvent:
    data = RunEvent(run_id=run_id, seq=number, owner="alice", conversation_id="c", data={"text": who})
    return NewEvent("message-delta", run_id, data)


@pytest.mark.spec("U5")
async def test_event_stored_is_seen_by_every_follower_in_order(connect: Any) -> None:
    run_id = new_id("run")
    seen: list[list[Stored]] = [[], []]
    for follower in seen:

        async def handler(event: Stored, into: list[Stored] = follower) -> None:
            if event.entity == run_id:
                into.append(event)

        await LiveEvents(await connect("gateway"), "agent", handler).start()
    agent = await connect("agent")
    appender, last = Appender(agent, "agent", "RUNS"), 0
    for number in range(1, 51):
        last = (await appender.append("acme", _event(run_id, number), last)).seq
    await until(lambda: all(len(follower) == 50 for follower in seen))
    stored = await EventReader(agent, "RUNS").entity("acme", "agent", run_id)
    for follower in seen:
        assert [event.envelope.data["seq"] for event in follower] == list(range(1, 51))
        assert [(event.seq, event.subject) for event in follower] == [(event.seq, event.subject) for event in stored]


@pytest.mark.spec("U5", "A2")
async def test_event_that_lost_its_race_is_never_seen(connect: Any) -> None:
    run_ids = {new_id("run") for _ in range(5)}
    seen: list[Stored] = []

    async def handler(event: Stored) -> None:
        if event.entity in run_ids:
            seen.append(event)

    await LiveEvents(await connect("gateway"), "agent", handler).start()
    appenders = [Appender(await connect("agent"), "agent", "RUNS") for _ in range(4)]

    async def race(run_id: str, number: int) -> str | None:
        try:
            await appenders[number % 4].append("acme", _event(run_id, 1, f"worker-{number}"), 0)
        except ConflictError:
            return None
        return f"worker-{number}"

    for run_id in run_ids:
        winners = [one for one in await asyncio.gather(*(race(run_id, number) for number in range(20))) if one]
        assert len(winners) == 1
        await until(lambda run_id=run_id: any(event.entity == run_id for event in seen))
        await asyncio.sleep(0.05)
        assert [event.envelope.data["data"]["text"] for event in seen if event.entity == run_id] == winners


async def test_message_that_is_no_event_is_passed_over(connect: Any) -> None:
    seen: list[str] = []
    run_id = new_id("run")

    async def handler(event: Stored) -> None:
        seen.append(event.entity)

    await LiveEvents(await connect("gateway"), "agent", handler).start()
    agent = await connect("agent")
    await agent.js.publish(f"placet.acme.agent.evt.message-delta.v1.{new_id('bad')}", b"garbage")
    await agent.js.publish("placet.acme.agent.evt.message-delta", b"no entity")
    await Appender(agent, "agent", "RUNS").append("acme", _event(run_id, 1), 0)
    await until(lambda: run_id in seen)
    assert seen == [run_id]


async def test_follower_sees_events_again_after_the_server_was_killed(own_rig: NatsRig) -> None:
    seen: list[str] = []

    async def handler(event: Stored) -> None:
        seen.append(event.entity)

    gateway, agent = await own_rig.bus("gateway"), await own_rig.bus("agent")
    await LiveEvents(gateway, "agent", handler).start()
    await Appender(agent, "agent", "RUNS").append("acme", _event("run-before", 1), 0)
    await until(lambda: seen == ["run-before"])
    own_rig.kill9()
    await own_rig.start_bare()
    await until(gateway.ready)
    await Appender(agent, "agent", "RUNS").append("acme", _event("run-after", 1), 0)
    await until(lambda: seen == ["run-before", "run-after"])
