"""Limits of a run: steps, calls and tokens, each ending with what is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placet.contracts.execution import ExecuteTool, ToolReply
from tests.integration.agent_fakes import (
    order,
    reply,
)
from tests.integration.agent_models import Stubborn, stub
from tests.integration.agent_rig import AgentRig

Use = Callable[[Stubborn], Stubborn]


@pytest.fixture
def stubborn(agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let a stubborn model plan, on orders that are always found."""

    async def found(command: ExecuteTool) -> ToolReply:
        return reply(command, {"items": [order(str(command.args["order_id"]))], "next": None})

    agent_rig.executor.answers["query_business_data"] = found
    return lambda model: stub(monkeypatch, model)


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
