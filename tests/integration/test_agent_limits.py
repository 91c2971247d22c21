"""Limits of a run: steps, calls, tokens, time and the tenant's money, each ending with what is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from placet.contracts.envelope import now
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.messaging.kv import KeyValue
from placet.testkit.waiting import until
from services.agent.adapters.models.chat import LangChainModel
from services.agent.domain.asking import PlannedCall, Spoken
from tests.integration.agent_fakes import TENANT, order, reply
from tests.integration.agent_models import Stubborn, scripted, stub
from tests.integration.agent_rig import AgentRig

Use = Callable[[Stubborn], Stubborn]


@pytest.fixture
def stubborn(agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let a stubborn model plan, on orders that are always found."""

    async def found(command: ExecuteTool) -> ToolReply:
        return reply(command, {"items": [order(str(command.args["order_id"]))], "next": None})

    agent_rig.executor.answers["query_business_data"] = found
    return lambda model: stub(monkeypatch, model)


@pytest.fixture
async def alone(agent_rig: AgentRig) -> AsyncIterator[AgentRig]:
    """The house with its agent away, so that a test starts one with limits of its own; the usual one comes back."""
    await agent_rig.stop_agent()
    yield agent_rig
    await agent_rig.stop_agent()
    await KeyValue(await agent_rig.nats.bus("agent"), "RUN_CONTROL").delete(f"{TENANT}.cost.{now():%Y%m%d}")
    await agent_rig.start_agent()


@pytest.mark.spec("U3", "W8")
async def test_identical_calls_without_end_run_once_and_end_at_the_step_limit(
    agent_rig: AgentRig, stubborn: Use
) -> None:
    model = stubborn(Stubborn(same=True))
    run_id = await agent_rig.ask("What is the status of order A1?  order A1001")
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "limit_reached"
    assert (model.rounds, len(agent_rig.executor.of(run_id))) == (8, 1)
    assert "Order A1 " in done["answer"]


@pytest.mark.spec("U3")
async def test_ever_new_calls_end_at_the_call_limit_with_what_is_known(agent_rig: AgentRig, stubborn: Use) -> None:
    stubborn(Stubborn(same=False))
    run_id = await agent_rig.ask("What is the status of order A1001?")
    done = await agent_rig.finished(run_id)
    assert (done["finish_reason"], len(agent_rig.executor.of(run_id))) == ("limit_reached", 12)
    assert "limits" in done["answer"]
    assert "Order A1 " in done["answer"]


@pytest.mark.spec("U3")
async def test_tokens_used_up_end_the_run(agent_rig: AgentRig, stubborn: Use) -> None:
    model = stubborn(Stubborn(same=False, tokens=30_000))
    run_id = await agent_rig.ask("What is the status of order A1001?")
    done = await agent_rig.finished(run_id)
    assert (done["finish_reason"], model.rounds) == ("limit_reached", 2)


@pytest.mark.spec("U3")
async def test_wall_time_used_up_ends_the_run_with_what_is_known(alone: AgentRig, stubborn: Use) -> None:
    await alone.start_agent(agent_max_wall_s=0.0)
    stubborn(Stubborn(same=False))
    run_id = await alone.ask("What is the status of order A1001?")
    done = await alone.finished(run_id)
    assert (done["finish_reason"], alone.executor.of(run_id)) == ("limit_reached", [])


@pytest.mark.spec("U3")
async def test_tenant_that_has_spent_its_day_gets_what_is_known_and_no_model_is_asked(
    alone: AgentRig, stubborn: Use
) -> None:
    await alone.start_agent(agent_token_price=1.0, agent_tenant_cost_per_day=25.0)
    model = stubborn(Stubborn(same=False, tokens=10_000))
    run_id = await alone.ask("What is the status of order A1001?")
    done = await alone.finished(run_id)
    assert (done["finish_reason"], model.rounds) == ("limit_reached", 3)
    assert "Order A1 " in done["answer"]
    last = (await alone.events(run_id))[-1].envelope.data
    assert (last["budget"]["cost"], last["limits"]["cost"]) == (30.0, 25.0)
    # The limit is the tenant's, not the run's: the next run, whoever asks, gets no word of a model either.
    other = await alone.finished(await alone.ask("What is the nightly lodging limit in Shanghai?", actor="bob"))
    assert (other["finish_reason"], model.rounds) == ("limit_reached", 3)


@pytest.mark.spec("U3", "T2")
async def test_reads_of_one_step_run_side_by_side_but_no_more_than_four(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, most = 0, 0

    async def slow(command: ExecuteTool) -> ToolReply:
        nonlocal inside, most
        inside, most = inside + 1, max(most, inside + 1)
        await asyncio.sleep(0.05)
        inside -= 1
        return reply(command, {"items": [], "next": None})

    agent_rig.executor.answers["query_business_data"] = slow
    scripted(
        monkeypatch, *(PlannedCall("query_business_data", {"entity": "orders", "order_id": f"A{i}"}) for i in range(12))
    )
    run_id = await agent_rig.ask("What is the status of order A1001?")
    await agent_rig.finished(run_id)
    assert (len(agent_rig.executor.of(run_id)), most) == (12, 4)


@pytest.mark.spec("U3")
async def test_reply_of_a_thousand_calls_runs_twelve_and_fills_no_checkpoint(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [PlannedCall("refund_payment", {"order_id": f"A{i}", "amount": 1, "reason": "r"}) for i in range(1000)]
    scripted(monkeypatch, *calls)
    run_id = await agent_rig.ask("Please refund order A1001, 299, it arrived broken.")

    async def parked() -> bool:
        return len(await agent_rig.data(run_id, "run-waiting-for-human")) == 12

    await until(parked)
    await agent_rig.released(run_id)
    assert len(agent_rig.executor.of(run_id)) == 12
    await agent_rig.cancel(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "cancelled"
    assert len(set(agent_rig.approval.withdrawn)) == 12


@pytest.mark.spec("U3")
async def test_answer_without_end_is_stopped(agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(*_: Any, **__: Any) -> AsyncIterator[Spoken]:
        while True:
            yield Spoken("and so on " * 100)

    monkeypatch.setattr(LangChainModel, "compose", endless)
    done = await agent_rig.answer("What is the nightly lodging limit in Shanghai?")
    assert done["finish_reason"] == "limit_reached"
    assert 20_000 < len(done["answer"]) < 22_000
    assert done["answer"].endswith("…")
