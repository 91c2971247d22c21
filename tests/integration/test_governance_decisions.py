"""Deciding proposals on the real bus and database: who may, with which answers, and of how many one wins (A2-A5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts import events as ev
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Acknowledgements, FinishReason, ProposalStatus
from placet.identity import keys
from placet.identity.signing import EventSigner
from placet.messaging.append import Appender, NewEvent
from tests.integration.governance_rig import GovernanceRig, answers_to
from tests.integration.proposal_steps import DEADLINE_S, ended, propose, refunds, refused


@pytest.mark.spec("A4", "I3")
async def test_who_may_not_decide_gets_404_or_403_and_nothing_changes(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1002")
    own = await refused(governance.approve("alice", proposal_id))
    assert own.code is ErrorCode.PERMISSION_DENIED
    unseen = await refused(governance.proposal("bob", proposal_id))
    absent = await refused(governance.proposal("bob", "prop-invented"))
    foreign = await refused(governance.proposal("alice", proposal_id, tenant="globex"))
    for error in (unseen, absent, foreign):
        assert (error.code, error.message, error.details) == (absent.code, absent.message, {})
    assert absent.code is ErrorCode.NOT_FOUND
    for who in ("bob", "mike", "auditor"):
        assert (await refused(governance.decide(who, proposal_id, "reject"))).code is ErrorCode.NOT_FOUND
    assert (await refused(governance.decide("dave", "prop-invented"))).code is ErrorCode.NOT_FOUND
    assert (await governance.proposal("dave", proposal_id)).status is ProposalStatus.PENDING


@pytest.mark.spec("A5", "G4")
async def test_challenge_unanswered_changes_nothing(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1002")
    view = await governance.proposal("dave", proposal_id)
    for answers in (None, Acknowledgements(resources=("A1002",), blast_radius=True, rollback=True, retype="A1001")):
        error = await refused(governance.decide("dave", proposal_id, digest=view.digest, answers=answers))
        assert error.code is ErrorCode.CHALLENGE_FAILED
    stale = await refused(governance.decide("dave", proposal_id, digest="sha256:0", answers=answers_to(view)))
    assert stale.code is ErrorCode.CONFLICT
    assert (await governance.proposal("dave", proposal_id)).status is ProposalStatus.PENDING


@pytest.mark.spec("A4", "G5")
async def test_amount_above_the_limit_needs_two_people(governance: GovernanceRig) -> None:
    before = await refunds(governance, "A2001")
    proposal_id = await propose(governance, "A2001", 600)
    first = await governance.approve("dave", proposal_id)
    assert (first.status, (await governance.proposal("dave", proposal_id)).approvals.needed) == (
        ProposalStatus.PENDING,
        2,
    )
    twice = await refused(governance.approve("dave", proposal_id))
    assert twice.code is ErrorCode.ALREADY_DECIDED
    assert await refunds(governance, "A2001") == before
    assert (await governance.approve("erin", proposal_id)).status is ProposalStatus.APPROVED
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS


@pytest.mark.spec("A3")
async def test_edit_runs_what_the_approver_wrote_and_bad_edits_leave_it_pending(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1004", 20)
    view = await governance.proposal("dave", proposal_id)

    async def edit(arguments: dict[str, Any]) -> Any:
        answers = answers_to(view, {"order_id": "A1004", **arguments})
        return await governance.decide("dave", proposal_id, "edit", digest=view.digest, args=arguments, answers=answers)

    bad: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"order_id": "A1004", "amount": "20", "reason": "x"}, ErrorCode.INVALID_ARGUMENTS),
        ({"order_id": "A1004", "amount": -1, "reason": "x"}, ErrorCode.INVALID_ARGUMENTS),
        ({"order_id": "A1004", "amount": 1, "reason": "x", "more": 1}, ErrorCode.INVALID_ARGUMENTS),
        ({"order_id": "A3001", "amount": 1, "reason": "x"}, ErrorCode.NOT_FOUND),
    ]
    for arguments, code in bad:
        assert (await refused(edit(arguments))).code is code
    assert (await governance.proposal("dave", proposal_id)).status is ProposalStatus.PENDING
    result = await edit({"order_id": "A1004", "amount": 5, "reason": "goodwill"})
    assert (result.status, result.digest != view.digest) == (ProposalStatus.APPROVED, True)
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS
    assert [item["amount"] for item in await refunds(governance, "A1004")].count(5) == 1


@pytest.mark.spec("A3")
@pytest.mark.parametrize(
    ("decision", "extra", "reason"),
    [("reject", {"message": "no"}, FinishReason.REJECTED), ("respond", {"message": "call"}, FinishReason.RESPONDED)],
)
async def test_reject_and_respond_complete_at_once_without_effect(
    governance: GovernanceRig, decision: str, extra: dict[str, Any], reason: FinishReason
) -> None:
    proposal_id = await propose(governance, "A1002")
    result = await governance.decide("dave", proposal_id, decision, **extra)
    assert (result.status, result.finish_reason) == (ProposalStatus.COMPLETED, reason)
    names = [item.name for item in (await governance.history("dave", proposal_id)).items]
    assert names[-1] == "completed"


@pytest.mark.spec("A2", "W9")
async def test_twenty_deciders_at_once_give_one_winner_and_one_effect(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1007", 4)
    view = await governance.proposal("dave", proposal_id)

    async def decide(number: int) -> ErrorCode | None:
        who = "dave" if number % 2 else "erin"
        try:
            await governance.decide(who, proposal_id, digest=view.digest, answers=answers_to(view))
        except PlacetError as error:
            return error.code
        return None

    outcomes = await asyncio.gather(*(decide(number) for number in range(20)))
    assert outcomes.count(None) == 1
    assert set(outcomes) - {None} == {ErrorCode.ALREADY_DECIDED}
    await ended(governance, proposal_id)
    assert [item["amount"] for item in await refunds(governance, "A1007")].count(4) == 1


@pytest.mark.spec("A2", "L1")
async def test_badly_signed_event_stored_by_an_intruder_counts_for_nothing(governance: GovernanceRig) -> None:
    """Even one who could write to the stream cannot decide: the event is left out of the fold and alarmed."""
    proposal_id = await propose(governance, "A1002")
    history = (await governance.history("dave", proposal_id)).items
    intruder = await governance.nats.bus("provision")
    forged = Appender(intruder, "approval", "APPROVALS", EventSigner(keys.generate()))
    event = ev.Rejected(proposal_id=proposal_id, by="dave", message="forged")
    await forged.append("acme", NewEvent("rejected", proposal_id, event), history[-1].seq)
    view = await governance.proposal("alice", proposal_id)
    assert view.status is ProposalStatus.PENDING
    assert [item.verified for item in (await governance.history("dave", proposal_id)).items] == [True, True, False]
    async with asyncio.timeout(DEADLINE_S):
        while not [
            entry
            for entry in (await governance.audit(type="security-event", limit=500)).items
            if entry.record.action == "bad_signature"
        ]:
            await asyncio.sleep(0.05)
    assert (await governance.approve("dave", proposal_id)).status is ProposalStatus.APPROVED
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS
