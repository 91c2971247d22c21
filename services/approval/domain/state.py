"""The state of a proposal, and the fold that is its only definition (A2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import (
    ActionPacket,
    Approval,
    ApprovalCount,
    Caller,
    FinishReason,
    Origin,
    ProposalStatus,
    ProposalView,
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event with its place on the stream and the time it was stored under."""

    seq: int
    name: str
    time: datetime
    event: Event


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal as its events tell it. `last_seq` is what the next append must name as its predecessor.

    `ending` is the reason of an end that is decided but not yet written as `completed`.
    """

    id: str
    idempotency_key: str
    origin: Origin
    packet: ActionPacket
    created_at: datetime
    expires_at: datetime
    last_seq: int
    surfaced: bool = False
    approvals: tuple[Approval, ...] = ()
    approved: bool = False
    edited: bool = False
    decided_by: tuple[str, ...] = ()
    ending: FinishReason | None = None
    ending_outcome: dict[str, Any] | None = None
    finish_reason: FinishReason | None = None
    outcome: dict[str, Any] | None = None
    viewed: tuple[str, ...] = ()
    joined: tuple[Caller, ...] = ()
    triggers: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Still to be decided."""
        return not self.approved and self.ending is None and self.finish_reason is None

    @property
    def approver_ids(self) -> tuple[str, ...]:
        return tuple(approval.by for approval in self.approvals)

    def answers(self, proposal_id: str) -> bool:
        """Whether the call that would have been this proposal has joined here."""
        return any(caller.proposal_id == proposal_id for caller in self.joined)

    def asked_by(self, run_id: str | None) -> bool:
        """Whether this run asked for it, first or later."""
        return run_id is not None and run_id in {self.origin.run_id, *(caller.run_id for caller in self.joined)}

    def status(self, *, executing: bool = False) -> ProposalStatus:
        if self.finish_reason or self.ending:
            return ProposalStatus.COMPLETED
        if not self.approved:
            return ProposalStatus.PENDING
        return ProposalStatus.EXECUTING if executing else ProposalStatus.APPROVED

    def view(self, *, executing: bool = False) -> ProposalView:
        packet = self.packet
        return ProposalView(
            proposal_id=self.id,
            status=self.status(executing=executing),
            finish_reason=self.finish_reason or self.ending,
            tool=packet.tool,
            title=packet.title,
            summary=packet.summary,
            arguments=packet.arguments,
            digest=packet.digest,
            intent=self.origin.intent,
            lineage=self.origin.lineage,
            authors=self.origin.authors,
            resource=packet.resource,
            permissions=packet.permissions,
            blast_radius=packet.blast_radius,
            preview=packet.preview,
            rollback=packet.rollback,
            risk=packet.risk,
            policy_revision=packet.policy_revision,
            idempotency_key=self.idempotency_key,
            requester=self.origin.requester,
            run_id=self.origin.run_id,
            request_id=self.origin.request_id,
            approvals=ApprovalCount(needed=packet.obligations.approvals, given=self.approvals),
            challenge=packet.challenge,
            created_at=self.created_at,
            expires_at=self.expires_at,
            outcome=self.outcome or self.ending_outcome,
            rollback_of=self.origin.rollback_of,
        )


_ENDINGS: dict[type[Event], FinishReason] = {
    ev.Rejected: FinishReason.REJECTED,
    ev.Responded: FinishReason.RESPONDED,
    ev.Cancelled: FinishReason.CANCELLED,
    ev.Expired: FinishReason.EXPIRED,
    ev.Superseded: FinishReason.SUPERSEDED,
}


def fold(history: Iterable[Recorded]) -> Proposal | None:
    """The state after `history`, oldest first; None for an empty one."""
    state: Proposal | None = None
    for recorded in history:
        if state is None:
            state = _born(recorded.event, recorded) if isinstance(recorded.event, ev.Proposed) else None
        else:
            state = advance(state, recorded)
    return state


def merged_into(history: Iterable[Recorded]) -> str | None:
    """The proposal that the call of this history was merged into last; None when it was never."""
    merges = [recorded.event.into for recorded in history if isinstance(recorded.event, ev.Merged)]
    return merges[-1] if merges else None


def advance(state: Proposal, recorded: Recorded) -> Proposal:
    """The state after one more event. Events after the end change nothing but the sequence."""
    event = recorded.event
    state = replace(state, last_seq=recorded.seq)
    if state.finish_reason is not None:
        return state
    if isinstance(event, ev.WaitingForHuman):
        return replace(state, surfaced=True)
    if isinstance(event, ev.Viewed):
        return replace(state, viewed=(*state.viewed, event.by))
    if isinstance(event, ev.Joined):
        return replace(state, joined=(*state.joined, event.caller))
    if isinstance(event, ev.Completed):
        return replace(state, finish_reason=event.finish_reason, outcome=event.outcome, ending=None)
    return _decided(state, event)


def _decided(state: Proposal, event: Event) -> Proposal:
    """What was decided once stays decided: a decision behind a decision changes nothing, but the world may move."""
    if not state.open and (state.ending is not None or not isinstance(event, ev.Superseded)):
        return state
    named = getattr(event, "decision_id", None)
    if named:
        state = replace(state, decisions=(*state.decisions, named))
    if isinstance(event, ev.Approved):  # Edited is one, too
        return _agreed(state, event)
    if isinstance(event, ev.Regraded):
        return _regraded(state, event)
    reason = _ENDINGS.get(type(event))
    return replace(state, **_ended(state, event, reason)) if reason else state


def _born(event: ev.Proposed, recorded: Recorded) -> Proposal:
    return Proposal(
        id=event.proposal_id,
        idempotency_key=event.idempotency_key,
        origin=event.origin,
        packet=event.packet,
        created_at=recorded.time,
        expires_at=event.expires_at,
        last_seq=recorded.seq,
    )


def _regraded(state: Proposal, event: ev.Regraded) -> Proposal:
    """The action as it stands now. `withdrawn` is an end like any other."""
    state = replace(
        state,
        packet=event.packet,
        idempotency_key=event.idempotency_key,
        approvals=event.approvals,
        decided_by=tuple(approval.by for approval in event.approvals),
        triggers=(*state.triggers, event.trigger),
    )
    if event.finish_reason is None:
        return state
    code = ErrorCode.PERMISSION_DENIED if event.finish_reason is FinishReason.DENIED else ErrorCode.CONFLICT
    outcome = {
        "finish_reason": event.finish_reason.value,
        "code": code.value,
        "message": event.reason,
        "diff": event.diff,
    }
    return replace(state, ending=event.finish_reason, ending_outcome=outcome)


def _agreed(state: Proposal, event: ev.Approved) -> Proposal:
    edited = isinstance(event, ev.Edited)
    return replace(
        state,
        packet=event.packet,
        idempotency_key=event.idempotency_key,
        approvals=event.approvals,
        approved=event.final,
        edited=state.edited or edited,
        decided_by=tuple(approval.by for approval in event.approvals),
    )


def _ended(state: Proposal, event: Event, reason: FinishReason) -> dict[str, Any]:
    by = getattr(event, "by", None)
    outcome: dict[str, Any] = {"finish_reason": reason.value}
    message = getattr(event, "message", None)
    if message is not None:
        outcome["message"] = message
    if isinstance(event, ev.Superseded):
        outcome["diff"] = event.diff
    decided_by = (by,) if by else state.decided_by
    return {"ending": reason, "ending_outcome": outcome, "decided_by": decided_by}
