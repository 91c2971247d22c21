"""What a governed call is answered with."""

from __future__ import annotations

from datetime import datetime

from placet.contracts.execution import DecisionNote, ProposalNote, ToolReply
from placet.contracts.proposals import ActionPacket, ProposalView
from placet.toolkit import ToolResult
from services.tool_executor.domain.masking import masked
from services.tool_executor.handlers.assessment import Assessment
from services.tool_executor.handlers.governed import Governed


def reply(
    governed: Governed,
    assessment: Assessment,
    result: ToolResult | None,
    *,
    key: str | None = None,
    repeated: bool = False,
) -> ToolReply:
    """Answered with its result, masked as policy obliges to, or (without one) waiting for people."""
    decision = assessment.decision
    return ToolReply(
        call_id=governed.command.call_id,
        tool=governed.spec.name,
        status="ok" if result else "waiting_for_human",
        result=masked(result.data, decision.obligations.mask) if result else None,
        evidence=result.evidence if result else (),
        decision=DecisionNote(
            effect=decision.effect,
            risk=decision.risk,
            policy_revision=decision.policy_revision,
            reasons=decision.reasons,
        ),
        stripped=governed.stripped.removed,
        idempotency_key=key,
        repeated=repeated or governed.repeated,
    )


def card(proposal_id: str, shown: ProposalView | ActionPacket, expires_at: datetime) -> ProposalNote:
    """What a waiting card may carry."""
    return ProposalNote(
        proposal_id=proposal_id,
        tool=shown.tool,
        title=shown.title,
        risk=shown.risk,
        expires_at=expires_at.isoformat(),
    )
