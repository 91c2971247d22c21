"""Work queues on a real server: nothing is lost when a worker dies, nothing unproven is handled (U2, A10, W9)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet.contracts import subjects
from placet.contracts.runs import StartRun
from placet.contracts.topology import DURABLES, Durable
from placet.messaging import wire, work_queue
from placet.messaging.command_queue import CommandQueue
from placet.messaging.connection import Bus
from placet.messaging.provision import _consumer_config
from placet.messaging.work_queue import Job, JobHandler, RetryLater, WorkQueue
from placet.observability.context import RequestContext, current
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

RUNS = replace(next(durable for durable in DURABLES if durable.name == "agent__run-queue-v1"), ack_wait_s=1.0)


@pytest.fixture
async def rig(own_rig: NatsRig) -> NatsRig:
    """A server whose run queue waits one second, not ten, for a silent worker."""
    bus = await own_rig.bus("provision")
    await bus.js.add_consumer(RUNS.stream, _consumer_config(RUNS))
    return own_rig


async def _submit(bus: Bus, run_id: str, *, tenant: str = "acme") -> None:
    payload = wire.encode(
        message_id=f"start-{run_id}",
        source="placet/gateway",
        type_="placet.agent.start-run.v1",
        subject=run_id,
        context=RequestContext(f"req-{run_id}", tenant, "alice"),
        tenant=tenant,
        data=StartRun(grant="g", run_id=run_id, conversation_id="c", question="q"),
    )
    await bus.js.publish(subjects.command(tenant, "agent", "start-run", run_id), payload, timeout=2)


@asynccontextmanager
async def _working(bus: Bus, handler: JobHandler, durable: Durable = RUNS, **options: Any) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(bus, durable, handler, **({"concurrency": 4} | options))
    await queue.start()
    try:
        yield queue
    finally:
        await queue.stop(grace_s=0.1)


async def _left(rig: NatsRig) -> int:
    bus = await rig.bus("provision")
    return (await bus.js.stream_info("RUN_QUEUE")).state.messages


@pytest.mark.spec("U2")
async def test_job_done_is_handled_once_and_leaves_the_queue(rig: NatsRig) -> None:
    done: list[tuple[str, int, str]] = []

    async def handler(job: Job) -> None:
        assert current().request_id == f"req-{job.event.entity}"
        assert (current().tenant, current().actor) == ("acme", "alice")
        done.append((job.event.entity, job.attempt, job.event.envelope.data["question"]))

    gateway = await rig.bus("gateway")
    async with _working(await rig.bus("agent"), handler):
        for number in range(20):
            await _submit(gateway, f"r{number}")
        await until(lambda: len(done) == 20)
        await asyncio.sleep(1.2)
    assert sorted(done) == sorted((f"r{number}", 1, "q") for number in range(20))
    assert await _left(rig) == 0


@pytest.mark.spec("U2", "A10")
async def test_job_of_a_worker_process_killed_is_given_to_another(rig: NatsRig, tmp_path: Path) -> None:
    program = tmp_path / "worker.py"
    program.write_text(WORKER, encoding="utf-8")
    await _submit(await rig.bus("gateway"), "r-survivor")
    command = [sys.executable, str(program), rig.url, str(rig.seed_file("agent"))]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert await asyncio.to_thread(worker.stdout.readline) == "started r-survivor 1\n"
        os.kill(worker.pid, signal.SIGKILL)
    finally:
        worker.kill()
        worker.wait(5)
    taken: list[tuple[str, int]] = []

    async def handler(job: Job) -> None:
        taken.append((job.event.entity, job.attempt))

    async with _working(await rig.bus("agent"), handler):
        await until(lambda: bool(taken), timeout_s=8)
    assert taken == [("r-survivor", 2)]
    assert await _left(rig) == 0


WORKER = """
import asyncio, sys
from pathlib import Path
from placet.contracts.topology import DURABLES
from placet.messaging.connection import Bus, BusSettings
from placet.messaging.work_queue import WorkQueue

async def main():
    url, seed = sys.argv[1], Path(sys.argv[2]).read_text()
    bus = await Bus.connect(BusSettings(url, "agent", seed))
    durable = next(one for one in DURABLES if one.name == "agent__run-queue-v1")

    async def handler(job):
        print("started", job.event.entity, job.attempt, flush=True)
        await asyncio.sleep(60)

    await WorkQueue(bus, durable, handler, concurrency=1).start()
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.spec("U2")
async def test_job_longer_than_the_wait_is_kept_by_heartbeats(rig: NatsRig) -> None:
    attempts: list[int] = []
    done = asyncio.Event()

    async def handler(job: Job) -> None:
        attempts.append(job.attempt)
        await asyncio.sleep(2.6)
        done.set()

    async with _working(await rig.bus("agent"), handler), _working(await rig.bus("agent"), handler):
        await _submit(await rig.bus("gateway"), "r-long")
        await asyncio.wait_for(done.wait(), 10)
        await asyncio.sleep(0.2)
    assert attempts == [1]
    assert await _left(rig) == 0


@pytest.mark.spec("U2")
async def test_job_that_fails_is_tried_again_until_it_succeeds(rig: NatsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_BACKOFF_S", (0.1, 0.1))
    attempts: list[int] = []

    async def handler(job: Job) -> None:
        attempts.append(job.attempt)
        if job.attempt < 4:
            raise ConnectionError("the database is away")

    async with _working(await rig.bus("agent"), handler):
        await _submit(await rig.bus("gateway"), "r-retry")
        await until(lambda: len(attempts) == 4)
        await asyncio.sleep(0.3)
    assert attempts == [1, 2, 3, 4]
    assert await _left(rig) == 0


async def test_job_put_off_comes_back_after_its_delay_and_not_before(rig: NatsRig) -> None:
    times: list[float] = []

    async def handler(job: Job) -> None:
        times.append(asyncio.get_running_loop().time())
        if job.attempt == 1:
            raise RetryLater(0.6)

    async with _working(await rig.bus("agent"), handler):
        await _submit(await rig.bus("gateway"), "r-later")
        await until(lambda: len(times) == 2)
    assert 0.55 <= times[1] - times[0] < 3


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
        await _submit(gateway, f"r{number}")
    async with _working(await rig.bus("agent"), handler, concurrency=3):
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
    await _submit(gateway, "r-first")
    async with _working(await rig.bus("agent"), busy, concurrency=1) as first:
        await until(lambda: len(first._pull._tasks) == 1)
        async with _working(await rig.bus("agent"), ready, concurrency=2):
            for number in range(5):
                await _submit(gateway, f"r{number}")
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
    await _submit(gateway, "r-in-hand")
    await started.wait()
    await queue.stop()
    await _submit(gateway, "r-next")
    await asyncio.sleep(0.2)
    assert finished == ["r-in-hand"]
    assert await _left(rig) == 1


@pytest.mark.spec("U2")
async def test_queue_goes_on_after_the_server_was_killed(rig: NatsRig) -> None:
    done: set[str] = set()

    async def handler(job: Job) -> None:
        await asyncio.sleep(0.05)
        done.add(job.event.entity)

    gateway = await rig.bus("gateway")
    async with _working(await rig.bus("agent"), handler, concurrency=2):
        for number in range(20):
            await _submit(gateway, f"a{number}")
        await until(lambda: len(done) > 3)
        rig.kill9()
        await rig.start_bare()
        await until(gateway.ready)
        for number in range(5):
            await _submit(gateway, f"b{number}")
        await until(lambda: len(done) == 25, timeout_s=15)

        async def empty() -> bool:
            return await _left(rig) == 0

        await until(empty, timeout_s=5)


@pytest.mark.spec("W9")
async def test_command_queued_twice_for_one_entity_is_worked_on_once(rig: NatsRig) -> None:
    done: list[str] = []

    async def handler(job: Job) -> None:
        done.append(f"{job.event.tenant}/{job.event.entity}")

    commands = CommandQueue(await rig.bus("gateway"))
    start = StartRun(grant="g", run_id="r1", conversation_id="c", question="q")
    async with _working(await rig.bus("agent"), handler):
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
    await _submit(gateway, "r-good")
    async with _working(await rig.bus("agent"), handler, alarm=_alarm_into(alarmed)):
        await until(lambda: done == ["r-good"] and len(set(alarmed)) == len(refused), timeout_s=30)
    assert sorted(set(alarmed)) == sorted(("not_an_event", subject) for subject in refused)
    assert await _left(rig) == 0
