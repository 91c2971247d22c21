"""What a fresh look at an open proposal leads to: withdrawn, other or more approvers, or unchanged (B3)."""

from __future__ import annotations

from typing import Any, Literal

from placet.contracts import events as ev
from placet.contracts.proposals import ActionPacket, Approval, FinishReason
from services.approval.domain.commands import Regrade
from services.approval.domain.outcomes import DENIED
from services.approval.domain.state import Proposal

Outcome = Literal["unchanged", "more_approvals", "other_approvers"]

_GONE = "What the proposal is about has changed since; it has to be asked for anew."


def regraded(state: Proposal, command: Regrade) -> ev.Regraded:
    """The event for this look. A new digest is a new thing to agree to, so approvals of the old one end with it."""
    if command.refused:
        code, message = command.refused
        reason = FinishReason.DENIED if code in DENIED else FinishReason.SUPERSEDED
        return _withdrawn(state, command.trigger, reason, f"{code.value}: {message}", {})
    packet = command.packet or state.packet
    moved = _moved(state.packet, packet)
    if moved:
        return _withdrawn(state, command.trigger, FinishReason.SUPERSEDED, _GONE, moved)
    kept = tuple(
        approval
        for approval in state.approvals
        if approval.by in command.still_eligible and approval.digest == packet.digest
    )
    outcome, why = _compared(state, packet, kept)
    return ev.Regraded(
        proposal_id=state.id,
        trigger=command.trigger,
        outcome=outcome,
        reason=why,
        packet=packet,
        idempotency_key=state.idempotency_key,
        approvals=kept,
        previous_digest=state.packet.digest,
    )


def _compared(state: Proposal, now: ActionPacket, kept: tuple[Approval, ...]) -> tuple[Outcome, str]:
    before, after = state.packet.obligations, now.obligations
    lost = [approval.by for approval in state.approvals if approval not in kept]
    if after.approvals > before.approvals:
        return "more_approvals", f"{after.approvals} people must agree now, {before.approvals} before"
    if lost:
        return "more_approvals", f"no longer counted: the approval of {', '.join(lost)}"
    if _who(state.packet) != _who(now):
        return "other_approvers", f"now decided by: {', '.join(after.approver_roles) or 'the requester'}"
    return "unchanged", "still permitted on the same terms"


def _who(packet: ActionPacket) -> tuple[Any, ...]:
    terms = packet.obligations
    return (terms.approver_roles, terms.requester_may_approve, terms.exclude_requester, terms.exclude_authors)


def _moved(signed: ActionPacket, now: ActionPacket) -> dict[str, Any]:
    """What is not as it was when it was asked for; policy may differ, the world and the tool may not."""
    pairs: dict[str, tuple[Any, Any]] = {
        "resource": (_version(signed), _version(now)),
        "tool_schema": (signed.schema_hash, now.schema_hash),
        "arguments": (signed.args_digest, now.args_digest),
    }
    return {name: {"signed": old, "now": new} for name, (old, new) in pairs.items() if old != new}


def _version(packet: ActionPacket) -> str:
    touched = packet.resource
    return f"{touched.type}/{touched.id}@{touched.version}" if touched else "none"


def _withdrawn(state: Proposal, trigger: str, finish: FinishReason, reason: str, diff: dict[str, Any]) -> ev.Regraded:
    return ev.Regraded(
        proposal_id=state.id,
        trigger=trigger,
        outcome="withdrawn",
        reason=reason,
        packet=state.packet,
        idempotency_key=state.idempotency_key,
        approvals=state.approvals,
        previous_digest=state.packet.digest,
        finish_reason=finish,
        diff=diff,
    )
