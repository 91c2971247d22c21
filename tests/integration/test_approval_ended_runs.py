"""Proposals of runs that have ended: a late one is never shown, and what was shown stays for whoever else waits."""

from __future__ import annotations

import pytest

from placet.contracts.approvals import DecisionResult, WithdrawProposal
from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import FinishReason, ProposalStatus
from placet.contracts.runs import RunEvent
from placet.messaging.append import Appender, NewEvent
from placet.messaging.rpc import RpcClient
from placet.observability.context import RequestContext, bound, new_id
from tests.integration.approval_steps import ask_refund, ended, names, refused
from tests.integration.governance_rig import GovernanceRig


async def ends(rig: GovernanceRig, run_id: str) -> None:
    """The run's last event, as the agent appends it."""
    event = RunEvent(run_id=run_id, seq=1, owner="alice", conversation_id="c", data={"finish_reason": "failed"})
    appender = Appender(await rig.nats.bus("agent"), "agent", "RUNS")
    await appender.append("acme", NewEvent("run-completed", run_id, event), 0)


async def leave(rig: GovernanceRig, run_id: str, proposal_id: str, *, leave: bool = True) -> DecisionResult:
    """What an agent does in the name of a run that has no use for its proposal any more."""
    command = WithdrawProposal(grant=rig.grant("alice", run_id=run_id), proposal_id=proposal_id, leave=leave)
    with bound(RequestContext(new_id("req"), "acme", "alice")):
        rpc = RpcClient(await rig.nats.bus("agent"))
        return await rpc.call("approval", "withdraw", command, DecisionResult, tenant="acme")


@pytest.mark.spec("A1", "A10")
async def test_call_that_is_proposed_after_its_run_has_ended_comes_before_nobody(governance: GovernanceRig) -> None:
    run_id, reason = new_id("run"), new_id("why")
    await ends(governance, run_id)
    proposal_id = await ask_refund(governance, reason=reason, run_id=run_id)
    view = await ended(governance, proposal_id)
    assert view.finish_reason is FinishReason.CANCELLED
    assert await names(governance, proposal_id) == ["proposed", "cancelled", "completed"]
    listed = (await governance.proposals("dave", status=ProposalStatus.PENDING, limit=100)).items
    assert proposal_id not in [one.proposal_id for one in listed]
    late = await refused(governance.decide("dave", proposal_id, "approve", digest=view.digest))
    assert late.code is ErrorCode.ALREADY_DECIDED
    # It stands in nobody's way: the same, asked by a run that goes on, is a proposal.
    again = await ask_refund(governance, reason=reason)
    assert (await governance.proposal("dave", again)).status is ProposalStatus.PENDING


@pytest.mark.spec("A1", "A10", "U6")
async def test_proposal_that_two_runs_wait_for_is_open_until_both_have_left_it(governance: GovernanceRig) -> None:
    reason, first, second = new_id("why"), new_id("run"), new_id("run")
    proposal_id = await ask_refund(governance, reason=reason, run_id=first)
    assert await ask_refund(governance, reason=reason, run_id=second) == proposal_id
    assert (await leave(governance, first, proposal_id)).status is ProposalStatus.PENDING
    await ends(governance, first)
    assert (await refused(leave(governance, new_id("run"), proposal_id))).code is ErrorCode.NOT_FOUND
    assert (await leave(governance, second, proposal_id)).finish_reason is FinishReason.CANCELLED


@pytest.mark.spec("R4")
async def test_proposal_that_is_withdrawn_for_its_own_sake_is_withdrawn_whoever_waits(
    governance: GovernanceRig,
) -> None:
    reason, first = new_id("why"), new_id("run")
    proposal_id = await ask_refund(governance, reason=reason, run_id=first)
    await ask_refund(governance, reason=reason, run_id=new_id("run"))
    assert (await leave(governance, first, proposal_id, leave=False)).finish_reason is FinishReason.CANCELLED
