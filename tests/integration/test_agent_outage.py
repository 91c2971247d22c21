"""Parts of the house that are away for longer than a call is tried: runs wait for them, within their limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.messaging.kv import KeyValue
from placet.testkit.waiting import until
from services.agent.adapters.graph.nodes import execute
from services.agent.adapters.graph.nodes.execute import Execution
from services.agent.adapters.graph.reading import Reading
from tests.integration.agent_fakes import TENANT
from tests.integration.agent_rig import AgentRig

LODGING = "What is the nightly lodging limit in Shanghai?"
REFUND = "Please refund order A1001, 299, it arrived broken."


@pytest.fixture
async def alone(agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AgentRig]:
    """An agent for which one failure would be the end, and whose calls are tried twice at once; the usual one comes
    back, and so does the executor."""
    monkeypatch.setattr(execute, "_ATTEMPTS", 2)
    await agent_rig.stop_agent()
    await agent_rig.start_agent(agent_max_failures=1)
    yield agent_rig
    await agent_rig.close_door()
    await agent_rig.open_door()
    await agent_rig.stop_agent()
    await agent_rig.start_agent()


async def gapless(rig: AgentRig, run_id: str) -> list[str]:
    events = await rig.events(run_id)
    assert [event.envelope.data["seq"] for event in events] == list(range(1, len(events) + 1))
    return [event.name for event in events]


@pytest.mark.spec("T4", "U2", "U3", "U5")
async def test_runs_of_every_kind_outlive_an_executor_that_is_away_for_longer_than_a_failure_is_allowed(
    alone: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away when they begin, in the middle of one, and when a decision comes."""
    decided = await alone.parked()
    await alone.close_door()
    await alone.complete(decided)
    waiting = [await alone.ask(LODGING), await alone.ask(REFUND), decided]
    for run_id in waiting:
        await alone.waits(run_id)
        assert await alone.data(run_id, "run-completed") == []
    control = KeyValue(await alone.nats.bus("agent"), "RUN_CONTROL")
    assert [await control.get(f"{TENANT}.{run_id}.failures") for run_id in waiting] == [None] * 3
    await alone.open_door()
    assert (await alone.finished(waiting[0]))["answer"].startswith("The nightly lodging limit in Shanghai is CNY 650.")
    await alone.reach(waiting[1], "run-waiting-for-human")
    await alone.released(waiting[1])
    await alone.complete(waiting[1])
    for run_id in waiting[1:]:
        assert (await alone.finished(run_id))["finish_reason"] == "success"
        assert (await gapless(alone, run_id)).count("tool-proposed") == 1
        assert len({call.call_id for call in alone.executor.of(run_id)}) == 1


@pytest.mark.spec("T4", "U4", "R6")
async def test_executor_that_goes_between_reading_and_answering_is_waited_for_rather_than_nothing_found(
    alone: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, gone = Reading.resolve, list[str]()

    async def closes(self: Reading, drive: Any, refs: Any) -> Any:
        if not gone:
            gone.append(drive.run.run_id)
            await alone.close_door()
        return await resolve(self, drive, refs)

    monkeypatch.setattr(Reading, "resolve", closes)
    run_id = await alone.ask(LODGING)
    await alone.waits(run_id, 1)
    await alone.open_door()
    done = await alone.finished(run_id)
    assert done["answer"] == "The nightly lodging limit in Shanghai is CNY 650. [1]"


@pytest.mark.spec("T4", "W9")
@pytest.mark.parametrize("reached", [False, True], ids=["reached nobody", "may have been carried out"])
async def test_error_after_an_outage_is_told_as_it_is_only_when_the_call_had_reached_nobody_before(
    alone: AgentRig, monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    ask, gone = Execution._one, list[str]()

    async def closes(self: Execution, state: Any, drive: Any, *call: Any) -> Any:
        if not gone and not reached:
            gone.append(drive.run.run_id)
            await alone.close_door()
        return await ask(self, state, drive, *call)

    async def away(command: ExecuteTool) -> ToolReply:
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "gone")

    async def invalid(command: ExecuteTool) -> ToolReply:
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "A note has 2000 characters at most.")

    monkeypatch.setattr(Execution, "_one", closes)
    alone.executor.answers["add_order_note"] = away
    run_id = await alone.ask("Add a note to order A1003: customer called twice")
    await alone.waits(run_id, 1)
    alone.executor.answers["add_order_note"] = invalid
    if not reached:
        await alone.open_door()
    done = await alone.finished(run_id)
    assert ("2000 characters" in done["answer"]) is not reached
    assert ("may or may not" in done["answer"]) is reached


@pytest.mark.spec("T4", "U3")
async def test_run_waits_no_longer_than_it_may_and_says_that_a_service_is_away(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_ATTEMPTS", 1)
    await agent_rig.stop_agent()
    await agent_rig.start_agent(agent_outage_s=2.0)
    away = PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "the orders are away")

    async def fails(command: ExecuteTool) -> ToolReply:
        raise away

    try:
        agent_rig.executor.answers["query_business_data"] = fails
        told = await agent_rig.ask("What is the status of order A1001?")
        done = await agent_rig.finished(told)
        assert (done["finish_reason"], "not available" in done["answer"]) == ("failed", True)
        assert len(agent_rig.executor.of(told)) > 1
        await agent_rig.close_door()
        silent = await agent_rig.ask(LODGING)
        assert (await agent_rig.finished(silent))["finish_reason"] == "failed"
        assert (await gapless(agent_rig, silent))[-1] == "run-completed"
    finally:
        await agent_rig.close_door()
        await agent_rig.open_door()
        await agent_rig.stop_agent()
        await agent_rig.start_agent()


@pytest.mark.spec("U3", "U6")
async def test_run_that_waits_for_the_executor_is_cancelled_at_once(alone: AgentRig) -> None:
    await alone.close_door()
    run_id = await alone.ask(LODGING)
    await alone.waits(run_id)

    async def cancelled() -> bool:
        await alone.cancel(run_id)
        return bool(await alone.data(run_id, "run-completed"))

    await until(cancelled)
    assert (await alone.finished(run_id))["finish_reason"] == "cancelled"
