"""The rules of proposals: fold and decide, as pure functions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode
from placet.contracts.policy import Eligibility, Obligations
from placet.contracts.proposals import Acknowledgements, Challenge, FinishReason, ProposalStatus
from placet.testkit.builders import NOON, origin, packet
from services.approval.domain.commands import (
    Approve,
    Command,
    Conclude,
    Decider,
    Edit,
    Expire,
    Moment,
    Reject,
    Respond,
    Withdraw,
)
from services.approval.domain.decide import challenge_met, decide
from services.approval.domain.outcomes import conclusion
from services.approval.domain.state import Proposal, Recorded, advance, fold
from services.approval.errors import Refusal

EXPIRY = NOON + timedelta(seconds=900)
NOW = Moment(NOON + timedelta(seconds=60))
LATE = Moment(EXPIRY + timedelta(seconds=1))
ANSWERS = Acknowledgements(resources=("A1001",), blast_radius=True, rollback=True, retype="A1001")
CHALLENGE = Challenge(resources=("A1001",), retype="order_id")


def proposed(approvals: int = 1) -> ev.Proposed:
    obligations = Obligations(approver_roles=("finance_approver",), challenge=True, approvals=approvals)
    return ev.Proposed(
        proposal_id="p1",
        idempotency_key="eff-1",
        origin=origin(),
        packet=packet(obligations=obligations, challenge=CHALLENGE),
        expires_at=EXPIRY,
    )


def pending(approvals: int = 1) -> Proposal:
    state = fold([Recorded(1, "proposed", NOON, proposed(approvals))])
    assert state is not None
    return state


def decider(person: str = "dave", *, allowed: bool = True, visible: bool = True) -> Decider:
    code = None if allowed else ErrorCode.PERMISSION_DENIED
    return Decider(person, ("finance_approver",), Eligibility(allowed=allowed, visible=visible, code=code))


def approve(state: Proposal, person: str = "dave", **changes: Any) -> Approve:
    fields = {"decider": decider(person), "digest": state.packet.digest, "acknowledgements": ANSWERS} | changes
    return Approve(**fields)


def after(state: Proposal, command: Command, moment: Moment = NOW) -> Proposal:
    """The state after the events of a command that must be accepted."""
    outcome = decide(state, command, moment)
    assert not isinstance(outcome, Refusal), outcome
    for name, event in outcome:
        state = advance(state, Recorded(state.last_seq + 1, name, moment.now, event))
    return state


def refused(state: Proposal, command: Command, moment: Moment = NOW) -> ErrorCode:
    outcome = decide(state, command, moment)
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


@pytest.mark.spec("A2")
def test_approve_by_an_eligible_person_on_the_shown_digest_is_final() -> None:
    state = after(pending(), approve(pending()))
    assert state.status() is ProposalStatus.APPROVED
    assert state.approver_ids == ("dave",)
    assert state.approvals[0].digest == state.packet.digest


@pytest.mark.spec("A2")
def test_approve_with_a_stale_or_missing_digest_is_a_conflict() -> None:
    for digest in ("sha256:other", "", None):
        assert refused(pending(), approve(pending(), digest=digest)) is ErrorCode.CONFLICT


@pytest.mark.spec("A4", "I3")
def test_decide_by_one_who_may_not_see_it_is_not_found_before_anything_else() -> None:
    stranger = decider(allowed=False, visible=False)
    for moment in (NOW, LATE):
        assert refused(pending(), approve(pending(), decider=stranger, digest="x"), moment) is ErrorCode.NOT_FOUND


@pytest.mark.spec("A4")
def test_decide_by_one_who_sees_but_may_not_is_permission_denied() -> None:
    requester = decider("alice", allowed=False)
    assert refused(pending(), approve(pending(), decider=requester)) is ErrorCode.PERMISSION_DENIED


@pytest.mark.spec("A4")
def test_quorum_of_two_needs_two_distinct_people() -> None:
    state = after(pending(2), approve(pending(2)))
    assert state.status() is ProposalStatus.PENDING
    assert refused(state, approve(state, "dave")) is ErrorCode.ALREADY_DECIDED
    assert after(state, approve(state, "erin")).status() is ProposalStatus.APPROVED


@pytest.mark.spec("A5")
@pytest.mark.parametrize(
    "answers",
    [
        None,
        Acknowledgements(),
        ANSWERS.model_copy(update={"resources": ()}),
        ANSWERS.model_copy(update={"resources": ("A1001", "A1002")}),
        ANSWERS.model_copy(update={"blast_radius": False}),
        ANSWERS.model_copy(update={"rollback": False}),
        ANSWERS.model_copy(update={"retype": "A1002"}),
        ANSWERS.model_copy(update={"retype": " A1001"}),
    ],
)
def test_challenge_wrong_or_partial_is_refused(answers: Acknowledgements | None) -> None:
    assert refused(pending(), approve(pending(), acknowledgements=answers)) is ErrorCode.CHALLENGE_FAILED


@pytest.mark.spec("A5")
def test_challenge_of_an_amount_accepts_the_same_number_in_another_spelling() -> None:
    own = packet(challenge=Challenge(resources=("A1001",), retype="amount"))
    for text, met in (("299", True), ("299.00", True), ("2990", False), ("two", False), ("", False)):
        assert challenge_met(own, ANSWERS.model_copy(update={"retype": text})) is met


@pytest.mark.spec("A3")
def test_edit_replaces_the_packet_and_starts_the_count_again() -> None:
    state = after(pending(2), approve(pending(2)))
    new = packet(
        arguments={"order_id": "A1001", "amount": 100, "reason": "partly"},
        digest="sha256:new",
        obligations=Obligations(approver_roles=("finance_approver",), challenge=True, approvals=2),
        challenge=CHALLENGE,
    )
    edited = after(state, Edit(decider("erin"), state.packet.digest, ANSWERS, new, "eff-2"))
    assert edited.packet.arguments["amount"] == 100
    assert edited.approver_ids == ("erin",)
    assert edited.status() is ProposalStatus.PENDING
    assert (edited.idempotency_key, edited.edited) == ("eff-2", True)
    assert refused(edited, approve(edited, "dave", digest=state.packet.digest)) is ErrorCode.CONFLICT


@pytest.mark.spec("A3")
def test_reject_and_respond_end_the_proposal_with_their_reason() -> None:
    rejected = after(pending(), Reject(decider(), "not this month"))
    assert (rejected.ending, rejected.decided_by) == (FinishReason.REJECTED, ("dave",))
    responded = after(pending(), Respond(decider(), "use a voucher"))
    assert responded.ending is FinishReason.RESPONDED
    assert responded.view().outcome == {"finish_reason": "responded", "message": "use a voucher"}
    assert refused(pending(), Respond(decider(), "  ")) is ErrorCode.INVALID_REQUEST


@pytest.mark.spec("A7")
def test_late_decision_is_expired_and_the_timer_ends_only_an_open_proposal() -> None:
    assert refused(pending(), approve(pending()), LATE) is ErrorCode.EXPIRED
    assert decide(pending(), Expire(), NOW) == []
    expired = after(pending(), Expire(), LATE)
    assert expired.ending is FinishReason.EXPIRED
    assert refused(expired, approve(expired), NOW) is ErrorCode.EXPIRED
    assert decide(after(pending(), approve(pending())), Expire(), LATE) == []


@pytest.mark.spec("A2")
def test_second_decision_of_any_kind_is_already_decided() -> None:
    state = after(pending(), approve(pending()))
    for command in (approve(state, "erin"), Reject(decider("erin"), None), Respond(decider("erin"), "x")):
        assert refused(state, command) is ErrorCode.ALREADY_DECIDED


def test_withdraw_by_another_than_the_requester_is_not_found() -> None:
    assert refused(pending(), Withdraw("bob")) is ErrorCode.NOT_FOUND
    assert after(pending(), Withdraw("alice")).ending is FinishReason.CANCELLED


def effect(model: type[Event], **fields: Any) -> Event:
    common = {
        "key": "eff-1",
        "tool": "refund_payment",
        "tenant": "acme",
        "requester": "alice",
        "proposal_id": "p1",
        "call_id": "call-1",
        "request_id": "req-1",
    }
    return model(**common, **fields)


@pytest.mark.spec("A8", "A9")
@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (effect(ev.Verified, result={}), FinishReason.SUCCESS),
        (effect(ev.VerificationFailed, result={}, observed={}), FinishReason.VERIFICATION_FAILED),
        (effect(ev.Unknown, reason="lost"), FinishReason.UNKNOWN),
        (effect(ev.Failed, code="conflict", message="moved"), FinishReason.SUPERSEDED),
        (effect(ev.Failed, code="permission_denied", message="no"), FinishReason.DENIED),
        (effect(ev.Failed, code="invalid_arguments", message="no"), FinishReason.FAILED),
    ],
)
def test_effect_end_becomes_the_proposal_end(event: Event, reason: FinishReason) -> None:
    command = conclusion(event)
    assert command is not None
    state = after(after(pending(), approve(pending())), command)
    assert state.finish_reason is reason
    assert decide(state, command, NOW) == []


def test_claimed_and_executed_end_nothing() -> None:
    assert conclusion(effect(ev.Executed, result={})) is None


_COMMANDS = st.sampled_from(
    ["approve dave", "approve erin", "approve dave", "reject", "respond", "withdraw", "expire", "conclude", "edit"]
)


def _command(name: str, state: Proposal) -> Command:
    verb, _, who = name.partition(" ")
    match verb:
        case "approve":
            return approve(state, who)
        case "edit":
            return Edit(decider("erin"), state.packet.digest, ANSWERS, state.packet, "eff-9")
        case "reject":
            return Reject(decider(), None)
        case "respond":
            return Respond(decider(), "x")
        case "withdraw":
            return Withdraw("alice")
        case "expire":
            return Expire()
        case _:
            return Conclude(FinishReason.SUCCESS, {"finish_reason": "success"})


@pytest.mark.spec("A2")
@given(names=st.lists(_COMMANDS, max_size=12), needed=st.integers(1, 2), late=st.booleans())
def test_any_sequence_of_commands_keeps_the_invariants(names: list[str], needed: int, late: bool) -> None:
    """One end at most, never reopened; final only with the quorum of distinct people; the fold is the state."""
    history = [Recorded(1, "proposed", NOON, proposed(needed))]
    state = pending(needed)
    for name in names:
        if name == "conclude" and not state.approved:
            continue
        before = state
        outcome = decide(state, _command(name, state), LATE if late else NOW)
        for kind, event in [] if isinstance(outcome, Refusal) else outcome:
            recorded = Recorded(state.last_seq + 1, kind, NOON, event)
            history.append(recorded)
            state = advance(state, recorded)
        if before.finish_reason:
            assert state.finish_reason is before.finish_reason
        if state.approved:
            assert len(set(state.approver_ids)) >= state.packet.obligations.approvals
        assert len(state.approver_ids) == len(set(state.approver_ids))
    assert fold(history) == state
    assert sum(1 for item in history if isinstance(item.event, ev.Completed)) <= 1
