"""Proposals under every order of commands that hypothesis can think of: what must hold whatever happens (A2).

T12 is read as: concurrent or late decisions are refused and change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode
from placet.contracts.policy import Eligibility, Obligations
from placet.contracts.proposals import (
    Acknowledgements,
    ActionPacket,
    Approval,
    Caller,
    Challenge,
    FinishReason,
    ProposalStatus,
)
from placet.testkit.builders import NOON, origin, packet
from services.approval.domain.commands import (
    Approve,
    Command,
    Conclude,
    Decider,
    Edit,
    Expire,
    Moment,
    Regrade,
    Reject,
    Respond,
    View,
    Withdraw,
)
from services.approval.domain.decide import completed, decide
from services.approval.domain.state import Proposal, Recorded, advance, fold
from services.approval.errors import Refusal

EXPIRY = NOON + timedelta(seconds=900)
CHALLENGE = Challenge(resources=("A1001",), retype="order_id")
ANSWERS = Acknowledgements(resources=("A1001",), blast_radius=True, rollback=True, retype="A1001")
PEOPLE = st.sampled_from(["dave", "erin", "fay"])
DECISIONS = (ev.Rejected, ev.Responded, ev.Cancelled, ev.Expired)


def _packet(number: int, needed: int) -> ActionPacket:
    terms = Obligations(approver_roles=("finance_approver",), challenge=True, approvals=needed)
    return packet(
        digest=f"sha256:{number}", args_digest=f"sha256:args-{number}", obligations=terms, challenge=CHALLENGE
    )


def _decider(person: str, *, allowed: bool = True) -> Decider:
    code = None if allowed else ErrorCode.PERMISSION_DENIED
    return Decider(person, ("finance_approver",), Eligibility(allowed=allowed, visible=True, code=code))


class Proposals(RuleBasedStateMachine):
    """One proposal, its clock, and its history as the stream would hold it."""

    @initialize(needed=st.integers(1, 3))
    def propose(self, needed: int) -> None:
        self.now = NOON
        self.packets = 1
        event = ev.Proposed(
            proposal_id="p1", idempotency_key="eff-1", origin=origin(), packet=_packet(1, needed), expires_at=EXPIRY
        )
        self.history = [Recorded(1, "proposed", NOON, event)]
        state = fold(self.history)
        assert state is not None
        self.state: Proposal = state

    def _store(self, name: str, event: Event) -> None:
        recorded = Recorded(self.state.last_seq + 1, name, self.now, event)
        before = self.state
        self.history.append(recorded)
        self.state = advance(self.state, recorded)
        if before.finish_reason:
            assert self.state == before or self._only_seq_differs(before)

    def _only_seq_differs(self, before: Proposal) -> bool:
        return replace(self.state, last_seq=before.last_seq) == before

    def _do(self, command: Command) -> list[tuple[str, Event]] | Refusal:
        was_open = self.state.open
        outcome = decide(self.state, command, Moment(self.now))
        if isinstance(outcome, Refusal):
            return outcome
        for name, event in outcome:
            if isinstance(event, ev.Approved | ev.Regraded | ev.Rejected | ev.Responded):
                assert was_open
                assert self.now < EXPIRY
            self._store(name, event)
        return outcome

    @rule(seconds=st.integers(1, 400))
    def time_goes_on(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(who=PEOPLE, stale=st.booleans(), answered=st.booleans(), allowed=st.booleans())
    def approve(self, who: str, stale: bool, answered: bool, allowed: bool) -> None:
        given = self.state.approver_ids
        digest = "sha256:stale" if stale else self.state.packet.digest
        outcome = self._do(Approve(_decider(who, allowed=allowed), digest, ANSWERS if answered else None))
        if stale or not answered or not allowed or who in given:
            assert isinstance(outcome, Refusal)

    @rule(who=PEOPLE, needed=st.integers(1, 3))
    def edit(self, who: str, needed: int) -> None:
        self.packets += 1
        fresh = _packet(self.packets, needed)
        command = Edit(_decider(who), self.state.packet.digest, ANSWERS, fresh, f"eff-{self.packets}")
        if not isinstance(self._do(command), Refusal):
            assert self.state.approver_ids == (who,)

    @rule(who=PEOPLE)
    def reject(self, who: str) -> None:
        self._do(Reject(_decider(who), None))

    @rule(who=PEOPLE, message=st.sampled_from([None, " ", "use a voucher"]))
    def respond(self, who: str, message: str | None) -> None:
        outcome = self._do(Respond(_decider(who), message))
        if message != "use a voucher":
            assert isinstance(outcome, Refusal)

    @rule(who=st.sampled_from(["alice", "dave", "erin"]))
    def view(self, who: str) -> None:
        seen = self.state.viewed
        outcome = self._do(View(_decider(who)))
        if who == "alice" or who in seen:
            assert outcome == []

    @rule(who=st.sampled_from(["alice", "bob"]))
    def withdraw(self, who: str) -> None:
        outcome = self._do(Withdraw(who))
        if who == "bob":
            assert isinstance(outcome, Refusal)

    @rule()
    def timer_fires(self) -> None:
        was_open = self.state.open
        self._do(Expire())
        if was_open and self.now >= EXPIRY:
            assert self.state.ending is FinishReason.EXPIRED

    @rule(
        trigger=st.sampled_from(["directory:alice@1", "directory:dave@2", "policy:a", "policy:b"]),
        needed=st.integers(1, 3),
        end=st.sampled_from([None, ErrorCode.PERMISSION_DENIED, ErrorCode.CONFLICT]),
        kept=st.frozensets(PEOPLE),
        same=st.booleans(),
    )
    def look_again(self, trigger: str, needed: int, end: ErrorCode | None, kept: frozenset[str], same: bool) -> None:
        before = self.state
        fresh = self.state.packet
        if not same:
            self.packets += 1
            terms = fresh.obligations.model_copy(update={"approvals": needed})
            fresh = fresh.model_copy(update={"digest": f"sha256:{self.packets}", "obligations": terms})
        refused = (end, "no") if end else None
        outcome = self._do(Regrade(trigger, None if end else fresh, refused, kept))
        if outcome and not end:
            assert set(self.state.approver_ids) <= set(before.approver_ids) & kept
            assert self.state.open

    @precondition(lambda self: self.state.ending is not None and self.state.finish_reason is None)
    @rule()
    def finish(self) -> None:
        assert self.state.ending is not None
        self._store("completed", completed(self.state, self.state.ending, self.state.ending_outcome or {}))

    @precondition(lambda self: self.state.approved)
    @rule(reason=st.sampled_from([FinishReason.SUCCESS, FinishReason.SUPERSEDED, FinishReason.DENIED]))
    def effect_ends(self, reason: FinishReason) -> None:
        self._do(Conclude(reason, {"finish_reason": reason.value}))
        assert self.state.finish_reason is not None

    @rule()
    def another_call_joins(self) -> None:
        caller = Caller(proposal_id="p2", run_id="run-2", call_id="call-2", request_id="req-2")
        if self.state.open and not self.state.answers("p2"):
            self._store("joined", ev.Joined(proposal_id="p1", caller=caller))

    @rule(event=st.sampled_from(["rejected", "expired", "approved", "completed"]))
    def late_event_changes_nothing(self, event: str) -> None:
        """Even if something wrote behind an end: what was decided stays decided."""
        if self.state.open or self.state.finish_reason is None:
            return
        late: dict[str, Event] = {
            "rejected": ev.Rejected(proposal_id="p1", by="erin"),
            "expired": ev.Expired(proposal_id="p1"),
            "approved": ev.Approved(
                proposal_id="p1",
                approval=Approval(by="erin", at=self.now, digest="x"),
                final=True,
                idempotency_key="eff-late",
                origin=origin(),
                packet=self.state.packet,
                approvals=(),
                expires_at=EXPIRY,
            ),
            "completed": completed(self.state, FinishReason.FAILED, {}),
        }
        self._store(event, late[event])

    @invariant()
    def history_is_the_state(self) -> None:
        assert fold(self.history) == self.state

    @invariant()
    def at_most_one_decision_ends_it(self) -> None:
        """Counted on the part of the history that `decide` wrote: up to the first last event."""
        written = [recorded.event for recorded in self.history]
        ends = [n for n, event in enumerate(written) if isinstance(event, ev.Completed)]
        written = written[: ends[0] + 1] if ends else written
        final = [
            event
            for event in written
            if isinstance(event, DECISIONS)
            or (isinstance(event, ev.Approved) and event.final)
            or (isinstance(event, ev.Regraded) and event.finish_reason)
        ]
        assert len(final) <= 1

    @invariant()
    def quorum_is_of_distinct_people_on_the_digest_that_runs(self) -> None:
        given = self.state.approver_ids
        assert len(given) == len(set(given))
        if self.state.approved:
            assert len(given) >= self.state.packet.obligations.approvals
            assert {approval.digest for approval in self.state.approvals} == {self.state.packet.digest}
        if self.state.open:
            assert self.state.status() is ProposalStatus.PENDING


TestProposals = pytest.mark.spec("A2", "A3", "A4", "A7", "B3", "T12")(Proposals.TestCase)
TestProposals.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
