"""Cancelling a run: waiting, running, queued, too late, and somebody else's."""

from __future__ import annotations

import asyncio

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.proposals import FinishReason
from tests.integration.agent_fakes import (
    note,
    proposal_of,
    reply,
)
from tests.integration.agent_rig import AgentRig

REFUND = "Please refund order A1001, 299, it arrived broken."


@pytest.mark.spec("U6")
async def test_cancel_of_a_waiting_run_completes_it_and_withdraws_its_proposal(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    accepted = await agent_rig.cancel(run_id)
    assert accepted.run_id == run_id
    # At once: the answer to the cancel comes after the run has ended.
    (done,) = await agent_rig.data(run_id, "run-completed")
    assert done == {"finish_reason": "cancelled", "answer": "This run was cancelled.", "citations": []}
    (command,) = agent_rig.executor.of(run_id)
    assert agent_rig.approval.withdrawn == [proposal_of(command)]
    await agent_rig.complete(run_id, FinishReason.CANCELLED)
    await asyncio.sleep(0.3)
    last = (await agent_rig.events(run_id))[-1]
    assert last.name == "run-completed"
    # Whoever ends a run has not counted what it used, and does not undo it.
    assert (last.envelope.data["budget"]["steps"], last.envelope.data["node"]) == (1, "execute")


@pytest.mark.spec("A10", "U6")
async def test_cancel_after_the_decision_says_that_approved_work_still_completes(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    agent_rig.approval.refuse = True
    await agent_rig.cancel(run_id)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "cancelled"
    assert "could not be withdrawn" in done["answer"]


@pytest.mark.spec("U6")
async def test_cancel_of_a_running_call_abandons_the_wait_and_withdraws_what_it_still_proposes(
    agent_rig: AgentRig,
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(command: ExecuteTool) -> ToolReply:
        asked.set()
        await go_on.wait()
        return reply(command, None, proposal=note(command))

    agent_rig.executor.answers["refund_payment"] = slow
    run_id = await agent_rig.ask(REFUND)
    await asyncio.wait_for(asked.wait(), 10)
    await agent_rig.cancel(run_id)
    go_on.set()
    assert (await agent_rig.finished(run_id))["finish_reason"] == "cancelled"
    assert agent_rig.approval.withdrawn == [proposal_of(agent_rig.executor.of(run_id)[0])]
    assert "run-waiting-for-human" not in await agent_rig.names(run_id)


@pytest.mark.spec("U6", "I3")
async def test_cancel_by_somebody_else_is_not_found_and_changes_nothing(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    with pytest.raises(PlacetError) as raised:
        await agent_rig.cancel(run_id, "bob")
    assert raised.value.code is ErrorCode.NOT_FOUND
    await agent_rig.complete(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"


@pytest.mark.spec("U6")
async def test_cancel_of_a_queued_run_ends_it_when_it_is_picked_up(agent_rig: AgentRig) -> None:
    run_id = "run-cancelled-early"
    await agent_rig.cancel(run_id)
    await agent_rig.ask(REFUND, run_id=run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "cancelled"
    assert agent_rig.executor.of(run_id) == []
