"""Publish proposals: which proposals are ones, and how their end is answered (A11)."""

from __future__ import annotations

from typing import Any

from placet.contracts.execution import ToolReply
from placet.contracts.proposals import FinishReason, ProposalView
from services.gateway.errors import changed_meanwhile

PROPOSE_TOOL = "create_publish_proposal"
DECIDE_TOOL = "apply_publish_decision"


def proposal_id_of(reply: ToolReply) -> str | None:
    """The proposal that the governed call made: named by the call's own gate, or in its result."""
    if reply.proposal is not None:
        return reply.proposal.proposal_id
    named = (reply.result or {}).get("proposal_id")
    return named if isinstance(named, str) else None


def lock_version(proposal: ProposalView) -> int | None:
    """The version of the document that this proposal is bound to."""
    bound = proposal.arguments.get("lock_version")
    if isinstance(bound, int):
        return bound
    version = proposal.resource.version if proposal.resource else ""
    return int(version) if version.isdigit() else None


def document_id(proposal: ProposalView) -> str | None:
    named = proposal.arguments.get("document_id")
    if isinstance(named, str):
        return named
    return proposal.resource.id if proposal.resource else None


def answer(proposal_id: str, status: str, finish_reason: FinishReason | None) -> dict[str, Any]:
    """Raises `PlacetError(conflict)` when the document had changed: the publishing was called off."""
    if finish_reason is FinishReason.SUPERSEDED:
        raise changed_meanwhile()
    return {
        "proposal_id": proposal_id,
        "status": status,
        "finish_reason": finish_reason.value if finish_reason else None,
    }
