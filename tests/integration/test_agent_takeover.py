"""Workers that die or stop: another one finishes the run, once and without a gap."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.contracts.execution import ExecuteTool, ToolReply
from placet.messaging.kv import KeyValue
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.agent.adapters.leases import KvLease, KvLeases, LeaseTimes
from services.agent.adapters.run_log import StreamRunLogs
from services.agent.domain.limits import Limits
from services.agent.domain.run import Run
from services.agent.errors import FencedError, LeaseLostError
from tests.integration.agent_fakes import TENANT, note, reply
from tests.integration.agent_rig import AgentRig
from tests.integration.nursery import environment

REFUND = "Please refund order A1001, 299, it arrived broken."


class Worker:
    """`python -m services.agent` in a process of its own."""

    def __init__(self, rig: AgentRig, root: Path) -> None:
        self._log = (rig.directory / "worker.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "services.agent"],
            cwd=root,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root}:{root / 'libs'}", **environment(rig.settings())},
            stdout=self._log,
            stderr=self._log,
        )

    def end(self, number: signal.Signals) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(20)
        self._log.close()
        return code


@pytest.fixture
async def alone(agent_rig: AgentRig) -> AsyncIterator[AgentRig]:
    """The house without its agent, which comes back afterwards."""
    await agent_rig.stop_agent()
    yield agent_rig
    if agent_rig.agent is None:
        await agent_rig.start_agent()


async def gapless(rig: AgentRig, run_id: str) -> None:
    events = await rig.events(run_id)
    assert [event.envelope.data["seq"] for event in events] == list(range(1, len(events) + 1))


@pytest.mark.spec("U2", "W9")
@pytest.mark.timeout(120)
async def test_worker_killed_in_the_middle_of_a_call_is_replaced_without_gap_or_second_proposal(
    alone: AgentRig, root: Path
) -> None:
    first, second, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(command: ExecuteTool) -> ToolReply:
        if not first.is_set():
            first.set()
            await over.wait()
        second.set()
        return reply(command, None, proposal=note(command))

    alone.executor.answers["refund_payment"] = slow
    worker = Worker(alone, root)
    try:
        run_id = await alone.ask(REFUND)
        await asyncio.wait_for(first.wait(), 40)
    finally:
        worker.end(signal.SIGKILL)
    await alone.start_agent()
    await asyncio.wait_for(second.wait(), 40)
    await alone.reach(run_id, "run-waiting-for-human")
    await alone.complete(run_id)
    assert (await alone.finished(run_id))["finish_reason"] == "success"
    await gapless(alone, run_id)
    names = await alone.names(run_id)
    assert [names.count(name) for name in ("run-started", "run-routed", "tool-proposed", "run-completed")] == [1] * 4
    assert len({call.call_id for call in alone.executor.of(run_id)}) == 1
    over.set()
    epochs = [event.envelope.data["epoch"] for event in await alone.events(run_id)]
    assert epochs == sorted(epochs)
    assert epochs[0] < epochs[-1]


def dying_before_writes(monkeypatch: pytest.MonkeyPatch, points: dict[str, int]) -> None:
    """Every run of `points` loses its lease at the n-th look at it, once: as if its worker died before that write."""
    check = KvLease.check

    def counted(lease: KvLease) -> None:
        run_id = lease.key.split(".")[1]
        left = points.get(run_id)
        if left is not None:
            points[run_id] = left - 1
            if left == 0:
                raise LeaseLostError(lease.key)
        check(lease)

    monkeypatch.setattr(KvLease, "check", counted)


@pytest.mark.spec("U2")
@pytest.mark.timeout(180)
async def test_run_whose_worker_dies_before_any_one_write_to_the_database_still_ends_once(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    points: dict[str, int] = {}
    dying_before_writes(monkeypatch, points)
    never = 10_000
    whole = new_id("run")
    points[whole] = never
    await agent_rig.ask(REFUND, run_id=whole)
    await agent_rig.reach(whole, "run-waiting-for-human")
    await agent_rig.complete(whole)
    await agent_rig.finished(whole)
    writes = never - points[whole]
    assert writes > 10
    runs = [new_id("run") for _ in range(writes)]
    points.update({run_id: at for at, run_id in enumerate(runs)})

    async def through(run_id: str) -> None:
        await agent_rig.ask(REFUND, run_id=run_id)
        await agent_rig.reach(run_id, "run-waiting-for-human", timeout_s=60)
        await agent_rig.complete(run_id)
        assert (await agent_rig.finished(run_id, timeout_s=60))["finish_reason"] == "success"
        await gapless(agent_rig, run_id)
        assert len({call.call_id for call in agent_rig.executor.of(run_id)}) == 1

    await asyncio.gather(*(through(run_id) for run_id in runs))
    assert max(points[run_id] for run_id in runs) < 0, "a point was never reached"


@pytest.mark.spec("U2", "A10")
@pytest.mark.timeout(120)
async def test_run_parked_by_a_worker_that_is_gone_is_resumed_by_another(alone: AgentRig, root: Path) -> None:
    worker = Worker(alone, root)
    try:
        run_id = await alone.ask(REFUND)
        await alone.reach(run_id, "run-waiting-for-human", timeout_s=40)
    finally:
        worker.end(signal.SIGKILL)
    await alone.complete(run_id)
    await alone.start_agent()
    assert (await alone.finished(run_id, timeout_s=40))["finish_reason"] == "success"
    await gapless(alone, run_id)
    assert (await alone.names(run_id)).count("run-waiting-for-human") == 1


@pytest.mark.spec("U2")
@pytest.mark.timeout(120)
async def test_worker_asked_to_stop_drains_and_hands_its_run_over(alone: AgentRig, root: Path) -> None:
    asked = asyncio.Event()

    async def slow(command: ExecuteTool) -> ToolReply:
        asked.set()
        await asyncio.sleep(1.0)
        return reply(command, None, proposal=note(command))

    alone.executor.answers["refund_payment"] = slow
    worker = Worker(alone, root)
    try:
        run_id = await alone.ask(REFUND)
        await asyncio.wait_for(asked.wait(), 40)
    finally:
        assert worker.end(signal.SIGTERM) == 0
    await alone.start_agent()
    await alone.reach(run_id, "run-waiting-for-human", timeout_s=40)
    await alone.complete(run_id)
    assert (await alone.finished(run_id, timeout_s=40))["finish_reason"] == "success"
    await gapless(alone, run_id)


def some_run(run_id: str) -> Run:
    return Run(TENANT, run_id, "alice", "conv", "q", "grant", "req-1")


@pytest.mark.spec("U2")
async def test_lease_is_held_by_one_worker_and_free_again_when_released(agent_rig: AgentRig) -> None:
    bucket = KeyValue(await agent_rig.nats.bus("agent"), "LEASES")
    one, other = KvLeases(bucket, "one", LeaseTimes()), KvLeases(bucket, "other", LeaseTimes())
    held = await one.acquire(TENANT, "run-lease")
    assert held is not None
    assert await other.acquire(TENANT, "run-lease") is None
    await held.release()
    again = await other.acquire(TENANT, "run-lease")
    assert again is not None
    assert again.epoch > held.epoch
    await again.release()


@pytest.mark.spec("U2")
async def test_lease_taken_over_while_its_holder_slept_is_noticed_before_the_next_write(agent_rig: AgentRig) -> None:
    bucket = KeyValue(await agent_rig.nats.bus("agent"), "LEASES")
    # Never renewed in time, as if the process had been stopped.
    asleep = await KvLeases(bucket, "asleep", LeaseTimes(ttl_s=2, renew_s=60)).acquire(TENANT, "run-asleep")
    assert asleep is not None
    await asyncio.sleep(2.5)
    other = await KvLeases(bucket, "awake", LeaseTimes()).acquire(TENANT, "run-asleep")
    assert other is not None
    with pytest.raises(LeaseLostError):
        asleep.check()
    await asleep.release()
    taken = await bucket.get(f"{TENANT}.run-asleep")
    assert taken is not None
    assert taken.value != b"free"
    await other.release()


@pytest.mark.spec("U2")
async def test_lease_that_somebody_else_overwrote_is_reported_lost(agent_rig: AgentRig) -> None:
    bucket = KeyValue(await agent_rig.nats.bus("agent"), "LEASES")
    lease = await KvLeases(bucket, "one", LeaseTimes(ttl_s=5, renew_s=0.2)).acquire(TENANT, "run-stolen")
    assert lease is not None
    await bucket.put(f"{TENANT}.run-stolen", b"{}")
    await asyncio.wait_for(lease.wait_lost(), 5)
    await lease.release()


@pytest.mark.spec("U2")
async def test_append_of_a_late_worker_is_fenced(agent_rig: AgentRig) -> None:
    logs = StreamRunLogs(await agent_rig.nats.bus("agent"), Limits())
    late = await logs.open(some_run("run-fenced"), epoch=1, attempt=1)
    await late.append("run-started", {"run_id": "run-fenced"})
    new = await logs.open(some_run("run-fenced"), epoch=2, attempt=2)
    await new.append("run-routed", {"route": "direct"})
    with pytest.raises(FencedError):
        await late.append("run-routed", {"route": "refuse"})
    assert [event.envelope.data["data"].get("route") for event in await agent_rig.events("run-fenced")] == [
        None,
        "direct",
    ]
    with pytest.raises(FencedError):
        await (await logs.open(some_run("run-fenced"), epoch=1, attempt=1)).append("message-delta", {"text": "x"})


@pytest.mark.spec("U2")
async def test_database_killed_and_started_again_costs_a_run_no_more_than_time(agent_rig: AgentRig) -> None:
    await asyncio.gather(*(agent_rig.answer("上海住宿上限是多少？") for _ in range(8)))
    waiting = await agent_rig.ask(REFUND)
    await agent_rig.reach(waiting, "run-waiting-for-human")
    await agent_rig.postgres.kill9()
    during = await agent_rig.ask("上海住宿上限是多少？")
    await asyncio.sleep(0.3)
    await agent_rig.postgres.server.start()
    assert (await agent_rig.finished(during, timeout_s=40))["finish_reason"] == "success"
    await agent_rig.complete(waiting)
    assert (await agent_rig.finished(waiting, timeout_s=40))["finish_reason"] == "success"
    await gapless(agent_rig, during)


@pytest.mark.spec("U2")
async def test_bus_killed_and_started_again_loses_no_run(agent_rig: AgentRig) -> None:
    waiting = await agent_rig.ask(REFUND)
    await agent_rig.reach(waiting, "run-waiting-for-human")
    agent_rig.nats.kill9()
    await agent_rig.nats.start()

    async def connected() -> bool:
        return agent_rig.gateway.client.is_connected and agent_rig.core.client.is_connected

    await until(connected)
    after = await agent_rig.ask("上海住宿上限是多少？")
    assert (await agent_rig.finished(after, timeout_s=40))["finish_reason"] == "success"
    await agent_rig.complete(waiting)
    assert (await agent_rig.finished(waiting, timeout_s=40))["finish_reason"] == "success"
