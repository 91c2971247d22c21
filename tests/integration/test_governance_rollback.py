"""Rollback plans: rehearsed before anybody is asked (B9), offered as a governed call when an effect is wrong (A9)."""

from __future__ import annotations

import pytest

from placet.contracts.proposals import FinishReason, ProposalStatus, ProposalView, Rollback
from placet.observability.context import new_id
from placet.testkit.waiting import until
from tests.integration.governance_rig import GovernanceRig
from tests.integration.odd_tools import OddPack


async def proposed(rig: GovernanceRig, tool: str, mode: str) -> ProposalView:
    reply = await rig.execute("alice", tool, {"mode": mode})
    assert reply.proposal is not None
    return await rig.proposal("dave", reply.proposal.proposal_id)


async def ended(rig: GovernanceRig, proposal_id: str) -> ProposalView:
    async def completed() -> bool:
        return (await rig.proposal("alice", proposal_id)).status is ProposalStatus.COMPLETED

    await until(completed, what=f"end of {proposal_id}")
    return await rig.proposal("alice", proposal_id)


async def alarms(rig: GovernanceRig, key: str) -> list[str]:
    page = await rig.audit(type="security-event", limit=500)
    return [entry.record.action for entry in page.items if entry.record.idempotency_key == key]


@pytest.mark.spec("B9", "G13")
async def test_rollback_plan_is_rehearsed_before_the_proposal_is_shown(governance: GovernanceRig) -> None:
    view = await proposed(governance, "odd_gated_write", "undoable")
    assert view.rollback == Rollback(tool="odd_write", arguments={"mode": "ok"}, rehearsed=True)


@pytest.mark.spec("B9", "G13")
@pytest.mark.parametrize(
    ("mode", "note"),
    [
        ("undone_by_nobody", "permission_denied"),
        ("undone_by_nothing", "tool_not_allowed"),
        ("undone_badly", "invalid_arguments"),
        ("undone_in_vain", "conflict: It could not be undone."),
        ("ok", "There is no rollback plan"),
    ],
)
async def test_rollback_plan_that_would_not_work_says_so_in_the_packet(
    governance: GovernanceRig, mode: str, note: str
) -> None:
    view = await proposed(governance, "odd_gated_write", mode)
    assert not view.rollback.rehearsed
    assert view.rollback.note.startswith(note)


@pytest.mark.spec("B9")
async def test_rehearsal_of_changing_an_order_back_runs_nothing(governance: GovernanceRig) -> None:
    args = {"order_id": "A1010", "item": "Another clock"}
    reply = await governance.execute("alice", "change_order", args)
    assert reply.proposal is not None
    view = await governance.proposal("dave", reply.proposal.proposal_id)
    assert view.rollback.rehearsed
    assert view.rollback.arguments == {"order_id": "A1010", "item": "Wall clock"}
    orders = await governance.execute("alice", "query_business_data", {"entity": "orders", "order_id": "A1010"})
    assert (orders.result or {})["items"][0]["item"] == "Wall clock"
    await governance.decide("dave", reply.proposal.proposal_id, "reject", message="only rehearsed")


@pytest.mark.spec("A9", "G13", "W11")
async def test_effect_that_reads_back_wrong_is_alarmed_and_its_undo_waits_for_people(
    governance: GovernanceRig,
) -> None:
    """Policy would let the undo run at once; nothing is undone unasked, so its requester is asked."""
    reply = await governance.execute(
        "alice", "odd_gated_write", {"mode": "unverified"}, intent="do it", request_id="req-rollback-1"
    )
    assert reply.proposal is not None
    await governance.approve("dave", reply.proposal.proposal_id)
    view = await ended(governance, reply.proposal.proposal_id)
    assert view.finish_reason is FinishReason.VERIFICATION_FAILED
    undo_id = (view.outcome or {})["rollback"]["proposal_id"]

    async def offered() -> bool:
        page = await governance.proposals("alice", status="pending", tool="odd_write")
        return undo_id in [item.proposal_id for item in page.items]

    await until(offered, what="the undo among alice's proposals")
    undo = await governance.proposal("alice", undo_id)
    assert (undo.rollback_of, undo.requester, undo.run_id) == (view.proposal_id, "alice", None)
    assert (undo.arguments, undo.request_id) == ({"mode": "ok"}, "req-rollback-1")
    assert "verification_failed" in await alarms(governance, view.idempotency_key)
    assert OddPack.effects[undo.idempotency_key] == 0
    await governance.approve("alice", undo_id)
    assert (await ended(governance, undo_id)).finish_reason is FinishReason.SUCCESS
    assert OddPack.effects[undo.idempotency_key] == 1


@pytest.mark.spec("A9", "G13")
async def test_undo_that_cannot_be_offered_is_alarmed_for_people_to_act(governance: GovernanceRig) -> None:
    call_id = new_id("call")
    with pytest.raises(Exception, match="reading it back"):
        await governance.execute("alice", "odd_write", {"mode": "unverified_stuck"}, call_id=call_id)

    async def alarmed() -> bool:
        page = await governance.audit(type="security-event", limit=500)
        mine = [entry.record for entry in page.items if entry.record.call_id == call_id]
        return {record.action for record in mine} == {"verification_failed", "rollback_not_offered"}

    await until(alarmed, what="both alarms")


@pytest.mark.spec("A9")
async def test_undo_of_an_effect_made_at_once_names_its_key(governance: GovernanceRig) -> None:
    call_id = new_id("call")
    with pytest.raises(Exception, match="reading it back"):
        await governance.execute("alice", "odd_write", {"mode": "unverified"}, call_id=call_id)
    events = await governance.effects_reader().page(
        "placet.acme.tool-executor.evt.verification-failed.v1.*", after=0, limit=200
    )
    [event] = [event for event in events if event.envelope.data["call_id"] == call_id]
    undo_id = event.envelope.data["rollback"]["proposal_id"]

    async def offered() -> bool:
        page = await governance.proposals("alice", tool="odd_write")
        return undo_id in [item.proposal_id for item in page.items]

    await until(offered, what="the undo")
    assert (await governance.proposal("alice", undo_id)).rollback_of == event.entity
