"""`decide(state, command, moment) -> events | Refusal`: pure, and the whole of the rules (A2-A8)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import Acknowledgements, ActionPacket, Approval, FinishReason
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
    Repeat,
    Respond,
    View,
    Withdraw,
)
from services.approval.domain.regrade import regraded
from services.approval.domain.state import Proposal
from services.approval.errors import Refusal

Named = tuple[str, Event]

# A timer may fire a moment before this process's clock has reached the expiry: the server's clock armed it.
_TIMER_TOLERANCE = timedelta(seconds=2)

_ALREADY = Refusal(ErrorCode.ALREADY_DECIDED, "This proposal has already been decided.")
_EXPIRED = Refusal(ErrorCode.EXPIRED, "This proposal has expired; nothing was executed.")
_STALE = Refusal(ErrorCode.CONFLICT, "The proposal is not the one you were shown: its digest differs. Read it again.")
_NOT_YOURS = Refusal(ErrorCode.PERMISSION_DENIED, "You may not decide this proposal.")
_CHALLENGE = Refusal(
    ErrorCode.CHALLENGE_FAILED,
    "Acknowledge every touched resource, the blast radius and the rollback plan, and retype the asked value exactly.",
)
_NO_MESSAGE = Refusal(ErrorCode.INVALID_REQUEST, "A response needs a message.")
_INVISIBLE = Refusal(ErrorCode.NOT_FOUND, "")


def decide(state: Proposal, command: Command, moment: Moment) -> list[Named] | Refusal:
    """The events that `command` leads to, in order, or why it leads to none.

    An empty list means that there is nothing left to do (the command had its effect before).
    """
    handler: Callable[[Proposal, Any, Moment], list[Named] | Refusal] = _HANDLERS[type(command)]
    return handler(state, command, moment)


def may_decide(state: Proposal, decider: Decider, moment: Moment) -> Refusal | None:
    """The checks that every person's decision passes, in an order that tells strangers nothing."""
    expired = FinishReason.EXPIRED in (state.finish_reason, state.ending)
    checks = (
        (not decider.eligibility.visible, _INVISIBLE),
        (expired, _EXPIRED),
        (not state.open, _ALREADY),
        (moment.now >= state.expires_at, _EXPIRED),
        (decider.id in state.approver_ids, _ALREADY),
        (not decider.eligibility.allowed, _NOT_YOURS),
    )
    return next((refusal for failed, refusal in checks if failed), None)


def _approve(state: Proposal, command: Approve, moment: Moment) -> list[Named] | Refusal:
    refusal = may_decide(state, command.decider, moment)
    if refusal:
        return refusal
    if command.digest != state.packet.digest:
        return _STALE
    if not challenge_met(state.packet, command.acknowledgements):
        return _CHALLENGE
    approval = _approval(command.decider, state.packet.digest, moment)
    given = (*state.approvals, approval)
    event = ev.Approved(
        proposal_id=state.id,
        approval=approval,
        final=len(given) >= state.packet.obligations.approvals,
        idempotency_key=state.idempotency_key,
        origin=state.origin,
        packet=state.packet,
        approvals=given,
        expires_at=state.expires_at,
        decision_id=command.decider.decision_id,
    )
    return [("approved", event)]


def _edit(state: Proposal, command: Edit, moment: Moment) -> list[Named] | Refusal:
    """New arguments start the count again: what others agreed to is not what would run now."""
    refusal = may_decide(state, command.decider, moment)
    if refusal:
        return refusal
    if command.digest != state.packet.digest:
        return _STALE
    if not challenge_met(command.packet, command.acknowledgements):
        return _CHALLENGE
    approval = _approval(command.decider, command.packet.digest, moment)
    event = ev.Edited(
        proposal_id=state.id,
        approval=approval,
        final=command.packet.obligations.approvals <= 1,
        idempotency_key=command.idempotency_key,
        origin=state.origin,
        packet=command.packet,
        approvals=(approval,),
        expires_at=state.expires_at,
        previous_digest=state.packet.digest,
        decision_id=command.decider.decision_id,
    )
    return [("edited", event)]


def _reject(state: Proposal, command: Reject, moment: Moment) -> list[Named] | Refusal:
    refusal = may_decide(state, command.decider, moment)
    if refusal:
        return refusal
    who = command.decider
    event = ev.Rejected(
        proposal_id=state.id, by=who.id, message=command.message, roles=who.roles, decision_id=who.decision_id
    )
    return [("rejected", event)]


def _respond(state: Proposal, command: Respond, moment: Moment) -> list[Named] | Refusal:
    refusal = may_decide(state, command.decider, moment)
    if refusal:
        return refusal
    if not command.message or not command.message.strip():
        return _NO_MESSAGE
    who = command.decider
    event = ev.Responded(
        proposal_id=state.id, by=who.id, message=command.message, roles=who.roles, decision_id=who.decision_id
    )
    return [("responded", event)]


def _repeat(state: Proposal, command: Repeat, moment: Moment) -> list[Named] | Refusal:
    return [] if command.decider.eligibility.visible else _INVISIBLE


def unseen_by(state: Proposal, person: str) -> bool:
    """Whether a first look by `person` would be worth an event: it is open, not their own, and not seen before."""
    return state.open and person != state.origin.requester and person not in state.viewed


def _view(state: Proposal, command: View, moment: Moment) -> list[Named] | Refusal:
    decider = command.decider
    if not unseen_by(state, decider.id) or not decider.eligibility.allowed:
        return []
    return [("viewed", ev.Viewed(proposal_id=state.id, by=decider.id, digest=state.packet.digest))]


def _withdraw(state: Proposal, command: Withdraw, moment: Moment) -> list[Named] | Refusal:
    if command.requester != state.origin.requester:
        return _INVISIBLE
    if not state.open:
        return _ALREADY
    if command.others_wait:
        return []
    return [("cancelled", ev.Cancelled(proposal_id=state.id, by=command.requester))]


def _expire(state: Proposal, command: Expire, moment: Moment) -> list[Named] | Refusal:
    if not state.open:
        return []
    if moment.now + _TIMER_TOLERANCE < state.expires_at:
        return []
    return [("expired", ev.Expired(proposal_id=state.id))]


def _regrade(state: Proposal, command: Regrade, moment: Moment) -> list[Named] | Refusal:
    """Each change of policy or rights is written down once; what has expired is left to its timer."""
    same = command.packet is None or command.packet.digest == state.packet.digest
    if not state.open or moment.now >= state.expires_at or (same and command.trigger in state.triggers):
        return []
    lost = command.refused or command.still_eligible < frozenset(state.approver_ids)
    if command.only_changes and same and not lost:
        return []
    return [("regraded", regraded(state, command))]


def _conclude(state: Proposal, command: Conclude, moment: Moment) -> list[Named] | Refusal:
    if state.finish_reason:
        return []
    events: list[Named] = []
    if command.reason is FinishReason.SUPERSEDED and state.ending is None:
        diff = command.outcome.get("diff", {})
        message = command.outcome.get("message")
        events.append(("superseded", ev.Superseded(proposal_id=state.id, diff=diff, message=message)))
    events.append(("completed", completed(state, command.reason, command.outcome)))
    return events


def completed(state: Proposal, reason: FinishReason, outcome: dict[str, Any]) -> ev.Completed:
    """The last event of every proposal: carries all that the run needs to go on."""
    return ev.Completed(
        proposal_id=state.id,
        finish_reason=reason,
        origin=state.origin,
        tool=state.packet.tool,
        arguments=state.packet.arguments,
        edited=state.edited,
        decided_by=state.decided_by,
        joined=state.joined,
        outcome=outcome,
    )


def _approval(decider: Decider, digest: str, moment: Moment) -> Approval:
    return Approval(by=decider.id, at=moment.now, digest=digest, roles=decider.roles)


def challenge_met(packet: ActionPacket, answer: Acknowledgements | None) -> bool:
    """Whether the acknowledgement answers the packet's challenge in full (A5). True when there is none."""
    challenge = packet.challenge
    if challenge is None:
        return True
    if answer is None or not (answer.blast_radius and answer.rollback):
        return False
    expected = packet.arguments.get(challenge.retype)
    return set(answer.resources) == set(challenge.resources) and _same_text(answer.retype, expected)


def _same_text(typed: str, expected: Any) -> bool:
    if isinstance(expected, str):
        return typed == expected
    try:
        return Decimal(typed) == Decimal(str(expected))
    except InvalidOperation:
        return False


_HANDLERS: dict[type, Callable[[Proposal, Any, Moment], list[Named] | Refusal]] = {
    Approve: _approve,
    Edit: _edit,
    Reject: _reject,
    Respond: _respond,
    Repeat: _repeat,
    View: _view,
    Withdraw: _withdraw,
    Expire: _expire,
    Regrade: _regrade,
    Conclude: _conclude,
}
