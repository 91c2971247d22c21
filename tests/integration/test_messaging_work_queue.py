"""Work queues on a real server: nothing is lost when a worker dies or fails (U2, A10, W9)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from placet.messaging import work_queue
from placet.messaging.provision import _consumer_config
from placet.messaging.work_queue import Job, RetryLater
from placet.observability.context import current
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until
from tests.integration.queue_steps import RUNS, left, submit, working


@pytest.fixture
async def rig(own_rig: NatsRig) -> NatsRig:
    """A server whose run queue waits one second, not ten, for a silent worker."""
    bus = await own_rig.bus("provision")
    await bus.js.add_consumer(RUNS.stream, _consumer_config(RUNS))
    return own_rig


@pytest.mark.spec("U2")
async def test_job_done_is_handled_once_and_leaves_the_queue(rig: NatsRig) -> None:
    done: list[tuple[str, int, str]] = []

    async def handler(job: Job) -> None:
        assert current().request_id == f"req-{job.event.entity}"
        assert (current().tenant, current().actor) == ("acme", "alice")
        done.append((job.event.entity, job.attempt, job.event.envelope.data["question"]))

    gateway = await rig.bus("gateway")
    async with working(await rig.bus("agent"), handler):
        for number in range(20):
            await submit(gateway, f"r{number}")
        await until(lambda: len(done) == 20)
        await asyncio.sleep(1.2)
    assert sorted(done) == sorted((f"r{number}", 1, "q") for number in range(20))
    assert await left(rig) == 0


@pytest.mark.spec("U2", "A10")
async def test_job_of_a_worker_process_killed_is_given_to_another(rig: NatsRig, tmp_path: Path) -> None:
    program = tmp_path / "worker.py"
    program.write_text(WORKER, encoding="utf-8")
    await submit(await rig.bus("gateway"), "r-survivor")
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

    async with working(await rig.bus("agent"), handler):
        await until(lambda: bool(taken))
    assert taken == [("r-survivor", 2)]
    assert await left(rig) == 0


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

    async with working(await rig.bus("agent"), handler), working(await rig.bus("agent"), handler):
        await submit(await rig.bus("gateway"), "r-long")
        await asyncio.wait_for(done.wait(), 10)
        await asyncio.sleep(0.2)
    assert attempts == [1]
    assert await left(rig) == 0


@pytest.mark.spec("U2")
async def test_job_that_fails_is_tried_again_until_it_succeeds(rig: NatsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_BACKOFF_S", (0.1, 0.1))
    attempts: list[int] = []

    async def handler(job: Job) -> None:
        attempts.append(job.attempt)
        if job.attempt < 4:
            raise ConnectionError("the database is away")

    async with working(await rig.bus("agent"), handler):
        await submit(await rig.bus("gateway"), "r-retry")
        await until(lambda: len(attempts) == 4)
        await asyncio.sleep(0.3)
    assert attempts == [1, 2, 3, 4]
    assert await left(rig) == 0


async def test_job_put_off_comes_back_after_its_delay_and_not_before(rig: NatsRig) -> None:
    times: list[float] = []

    async def handler(job: Job) -> None:
        times.append(asyncio.get_running_loop().time())
        if job.attempt == 1:
            raise RetryLater(0.6)

    async with working(await rig.bus("agent"), handler):
        await submit(await rig.bus("gateway"), "r-later")
        await until(lambda: len(times) == 2)
    assert 0.55 <= times[1] - times[0] < 3


@pytest.mark.spec("U2")
async def test_queue_goes_on_after_the_server_was_killed(rig: NatsRig) -> None:
    done: set[str] = set()

    async def handler(job: Job) -> None:
        await asyncio.sleep(0.05)
        done.add(job.event.entity)

    gateway = await rig.bus("gateway")
    async with working(await rig.bus("agent"), handler, concurrency=2):
        for number in range(20):
            await submit(gateway, f"a{number}")
        await until(lambda: len(done) > 3)
        rig.kill9()
        await rig.start_bare()
        await until(gateway.ready)
        for number in range(5):
            await submit(gateway, f"b{number}")
        await until(lambda: len(done) == 25)

        async def empty() -> bool:
            return await left(rig) == 0

        await until(empty)
