"""Decisions that cannot be right: refused with their code, and the proposal stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import ProposalStatus
from placet.observability.context import new_id
from tests.integration.approval_steps import ask_refund, asked, policy, refused, settled
from tests.integration.governance_rig import GovernanceRig, answers_to

GOOD: dict[str, Any] = {"order_id": "A1002", "amount": 1, "reason": "goodwill"}
BAD_EDITS: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "amount as text": (GOOD | {"amount": "1"}, ErrorCode.INVALID_ARGUMENTS),
    "negative amount": (GOOD | {"amount": -1}, ErrorCode.INVALID_ARGUMENTS),
    "no amount": ({"order_id": "A1002", "reason": "x"}, ErrorCode.INVALID_ARGUMENTS),
    "zero": (GOOD | {"amount": 0}, ErrorCode.INVALID_ARGUMENTS),
    "not a number": (GOOD | {"amount": float("nan")}, ErrorCode.INVALID_ARGUMENTS),
    "infinite": (GOOD | {"amount": float("inf")}, ErrorCode.INVALID_ARGUMENTS),
    "1e308": (GOOD | {"amount": 1e308}, ErrorCode.INVALID_ARGUMENTS),
    "more decimals than the currency has": (GOOD | {"amount": 1.001}, ErrorCode.INVALID_ARGUMENTS),
    "a truth for an amount": (GOOD | {"amount": True}, ErrorCode.INVALID_ARGUMENTS),
    "unknown field": (GOOD | {"more": 1}, ErrorCode.INVALID_ARGUMENTS),
    "more than was paid": (GOOD | {"amount": 460}, ErrorCode.INVALID_ARGUMENTS),
    "order of a customer the requester does not serve": (GOOD | {"order_id": "A3001"}, ErrorCode.NOT_FOUND),
    "invented order": (GOOD | {"order_id": "A9999"}, ErrorCode.NOT_FOUND),
}


@pytest.mark.spec("A3", "G7")
async def test_edit_that_breaks_schema_policy_or_business_rule_leaves_the_proposal_pending(
    governance: GovernanceRig,
) -> None:
    proposal_id = await ask_refund(governance)
    before = await governance.proposal("dave", proposal_id)
    got: dict[str, ErrorCode] = {}
    for name, (arguments, _) in BAD_EDITS.items():
        answers = answers_to(before, GOOD | arguments)
        work = governance.decide("dave", proposal_id, "edit", digest=before.digest, args=arguments, answers=answers)
        got[name] = (await refused(work)).code
    assert got == {name: code for name, (_, code) in BAD_EDITS.items()}
    missing = await refused(governance.decide("dave", proposal_id, "edit", digest=before.digest))
    assert missing.code is ErrorCode.INVALID_REQUEST
    assert await governance.proposal("dave", proposal_id) == before
    assert before.status is ProposalStatus.PENDING


@pytest.mark.spec("A3", "I3", "I4", "T12")
@pytest.mark.parametrize("decision", ["approve", "edit", "reject", "respond"])
async def test_decision_on_what_is_invented_foreign_or_decided_changes_nothing(
    governance: GovernanceRig, decision: str
) -> None:
    """T12 is read as: concurrent or late decisions are refused and change nothing."""
    proposal_id = await ask_refund(governance)
    view = await governance.proposal("dave", proposal_id)
    extra: dict[str, Any] = {"digest": view.digest, "answers": answers_to(view), "message": "no", "args": GOOD}
    invented = await refused(governance.decide("dave", new_id("prop"), decision, **extra))
    odd_id = await refused(governance.decide("dave", "prop.*.>", decision, **extra))
    foreign = await refused(governance.decide("alice", proposal_id, decision, tenant="globex", **extra))
    assert {error.code for error in (invented, odd_id, foreign)} == {ErrorCode.NOT_FOUND}
    assert len({error.message for error in (invented, odd_id, foreign)}) == 1
    await governance.decide("erin", proposal_id, "reject")
    decided = await governance.proposal("erin", proposal_id)
    late = await refused(governance.decide("dave", proposal_id, decision, **extra))
    assert late.code is ErrorCode.ALREADY_DECIDED
    assert await governance.proposal("erin", proposal_id) == decided


@pytest.mark.spec("A5")
async def test_answers_and_digest_of_another_proposal_are_refused(governance: GovernanceRig) -> None:
    """The challenge is the server's, made from this packet: what was typed for another one proves nothing."""
    one = await governance.proposal("dave", await ask_refund(governance, "A1002"))
    two = await governance.proposal("dave", await ask_refund(governance, "A1004"))
    answers, others = answers_to(one), answers_to(two)
    assert answers is not None
    assert one.challenge is not None
    assert (one.challenge.resources, one.challenge.retype) == (("A1002",), "order_id")
    attempts = {
        "another's answers": (one.digest, others, ErrorCode.CHALLENGE_FAILED),
        "another's digest": (two.digest, answers, ErrorCode.CONFLICT),
        "all of another's": (two.digest, others, ErrorCode.CONFLICT),
        "no answers": (one.digest, None, ErrorCode.CHALLENGE_FAILED),
        "without the rollback plan": (
            one.digest, answers.model_copy(update={"rollback": False}), ErrorCode.CHALLENGE_FAILED,
        ),
        "without the blast radius": (
            one.digest, answers.model_copy(update={"blast_radius": False}), ErrorCode.CHALLENGE_FAILED,
        ),
        "one resource too many": (
            one.digest, answers.model_copy(update={"resources": ("A1002", "A1004")}), ErrorCode.CHALLENGE_FAILED,
        ),
        "the amount instead": (one.digest, answers.model_copy(update={"retype": "1"}), ErrorCode.CHALLENGE_FAILED),
    }  # fmt: skip
    got = {
        name: (await refused(governance.decide("dave", one.proposal_id, digest=digest, answers=given))).code
        for name, (digest, given, _) in attempts.items()
    }
    assert got == {name: code for name, (_, _, code) in attempts.items()}
    assert (await governance.proposal("dave", one.proposal_id)) == one


@pytest.mark.spec("A1", "B9")
async def test_packet_shows_the_plan_that_would_undo_it_or_that_there_is_none(governance: GovernanceRig) -> None:
    change = {"order_id": "A1010", "item": new_id("Clock")}
    undoable = await governance.proposal("dave", await asked(governance, "alice", "change_order", change))
    final = await governance.proposal("dave", await ask_refund(governance))
    assert (undoable.rollback.tool, undoable.rollback.arguments["order_id"]) == ("change_order", "A1010")
    assert final.rollback.tool is None
    assert undoable.blast_radius
    await governance.decide("dave", undoable.proposal_id, "reject")


@pytest.mark.spec("A4", "G5")
async def test_author_of_cited_evidence_may_not_decide_where_policy_says_so(apart: GovernanceRig) -> None:
    def exclude(agreements: dict[str, Any]) -> None:
        agreements["finance_plain"]["obligations"]["exclude_authors"] = True

    with policy(apart, "agreements", exclude):
        await settled(apart)
        cited: dict[str, Any] = {"authors": ("dave",), "lineage": ("doc-1:v1:chunk-01",)}
        proposal_id = await asked(apart, "alice", "odd_gated_write", {"mode": new_id("ok")}, **cited)
        view = await apart.proposal("dave", proposal_id)
        assert view.authors == ("dave",)
        assert (await refused(apart.approve("dave", proposal_id))).code is ErrorCode.PERMISSION_DENIED
        assert (await apart.approve("erin", proposal_id)).status is ProposalStatus.APPROVED
