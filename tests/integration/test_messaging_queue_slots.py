"""Work queues on a real server: slots, stopping, and messages that are nobody's job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from placet.contracts import subjects
from placet.contracts.runs import StartRun
from placet.messaging.command_queue import CommandQueue
from placet.messaging.provision import _consumer_config
from placet.messaging.work_queue import Job, WorkQueue
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until
from tests.integration.queue_steps import RUNS, left, submit, working


@pytest.fixture
async def rig(own_rig: NatsRig) -> NatsRig:
    """A server whose run queue waits one second, not ten, for a silent worker."""
    bus = await own_rig.bus("provision")
    await bus.js.add_consumer(RUNS.stream, _consumer_config(RUNS))
    return own_rig


async def test_queue_runs_no_more_jobs_at_once_than_allowed(rig: NatsRig) -> None:
    running, most, finished = 0, 0, 0

    async def handler(_: Job) -> None:
        nonlocal running, most, finished
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.03)
        running -= 1
        finished += 1

    gateway = await rig.bus("gateway")
    for number in range(20):
        await submit(gateway, f"r{number}")
    async with working(await rig.bus("agent"), handler, concurrency=3):
        await until(lambda: finished == 20)
    assert most == 3


async def test_queue_with_all_slots_busy_leaves_jobs_to_other_workers(rig: NatsRig) -> None:
    """A busy worker holds no job that an idle one could do."""
    release = asyncio.Event()
    idle: list[str] = []

    async def busy(_: Job) -> None:
        await release.wait()

    async def ready(job: Job) -> None:
        idle.append(job.event.entity)

    gateway = await rig.bus("gateway")
    await submit(gateway, "r-first")
    async with working(await rig.bus("agent"), busy, concurrency=1) as first:
        await until(lambda: len(first._pull._tasks) == 1)
        async with working(await rig.bus("agent"), ready, concurrency=2):
            for number in range(5):
                await submit(gateway, f"r{number}")
            await until(lambda: len(idle) == 5)
            release.set()
    assert sorted(idle) == [f"r{number}" for number in range(5)]


async def test_queue_stopped_lets_running_jobs_finish_and_takes_no_more(rig: NatsRig) -> None:
    started, finished = asyncio.Event(), []

    async def handler(job: Job) -> None:
        started.set()
        await asyncio.sleep(0.4)
        finished.append(job.event.entity)

    gateway = await rig.bus("gateway")
    queue = WorkQueue(await rig.bus("agent"), RUNS, handler, concurrency=4)
    await queue.start()
    await submit(gateway, "r-in-hand")
    await started.wait()
    await queue.stop()
    await submit(gateway, "r-next")
    await asyncio.sleep(0.2)
    assert finished == ["r-in-hand"]
    assert await left(rig) == 1


@pytest.mark.spec("W9")
async def test_command_queued_twice_for_one_entity_is_worked_on_once(rig: NatsRig) -> None:
    done: list[str] = []

    async def handler(job: Job) -> None:
        done.append(f"{job.event.tenant}/{job.event.entity}")

    commands = CommandQueue(await rig.bus("gateway"))
    start = StartRun(grant="g", run_id="r1", conversation_id="c", question="q")
    async with working(await rig.bus("agent"), handler):
        for tenant in ("acme", "acme", "globex"):
            await commands.put(tenant, "agent", "start-run", "r1", start)
        await until(lambda: len(done) == 2)
        await asyncio.sleep(0.2)
    assert sorted(done) == ["acme/r1", "globex/r1"]
    for hostile in ("*", "a.b", ""):
        with pytest.raises(subjects.BadSubjectError):
            await commands.put("acme", "agent", "start-run", hostile, start)


Alarmed = list[tuple[str, str]]


def _alarm_into(alarmed: Alarmed) -> Callable[[str, str], Awaitable[None]]:
    async def alarm(kind: str, subject: str) -> None:
        alarmed.append((kind, subject))

    return alarm


async def test_messages_that_are_no_events_are_alarmed_and_do_not_block(rig: NatsRig) -> None:
    done: list[str] = []
    alarmed: Alarmed = []

    async def handler(job: Job) -> None:
        done.append(job.event.entity)

    gateway = await rig.bus("gateway")
    garbage = [b"", b"not json", b"[]", b'{"id":"x"}', b"\xff\x00", b'{"data":' * 10_000]
    refused = [subjects.command("acme", "agent", "start-run", f"garbage-{number}") for number in range(len(garbage))]
    for subject, payload in zip(refused, garbage, strict=True):
        await gateway.js.publish(subject, payload, timeout=2)
    await submit(gateway, "r-good")
    async with working(await rig.bus("agent"), handler, alarm=_alarm_into(alarmed)):
        await until(lambda: done == ["r-good"] and len(set(alarmed)) == len(refused))
    assert sorted(set(alarmed)) == sorted(("not_an_event", subject) for subject in refused)
    assert await left(rig) == 0
