"""Publishing a document: proposed by a governed call, decided by a person, done or called off (A11)."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.proposals import DecisionKind, ProposalStatus, ProposalView
from placet.contracts.tools import Route
from services.gateway.domain import publishing as rules
from services.gateway.domain.pacing import pauses
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import Caller, CallerDep, Id
from services.gateway.handlers.documents import find_document
from services.gateway.handlers.models import PublishDecided, PublishDecision, PublishProposal
from services.gateway.handlers.proposals import decide, find_proposal
from services.gateway.handlers.tools import NOT_THEIRS, governed_call

router = APIRouter(route_class=StrictRoute, tags=["publishing"])


@router.post(
    "/api/documents/{document_id}/publish-proposals",
    status_code=201,
    response_model=None,
    responses=documented({201: PublishProposal}),
)
async def on_propose(document_id: Id, caller: CallerDep) -> Response:
    """Propose the newest draft of a document, bound to its present `lock_version`."""
    try:
        reply = await governed_call(
            caller,
            rules.PROPOSE_TOOL,
            {"document_id": document_id},
            route=Route.HTTP_PUBLISH,
            intent=f"Publish document {document_id}.",
        )
    except PlacetError as error:
        if error.code not in NOT_THEIRS:
            raise
        # Publishing is not theirs; whether there is such a document is told only to who may see it.
        await find_document(caller, document_id)
        raise PlacetError(ErrorCode.PERMISSION_DENIED, "You may not do this.") from error
    proposal_id = rules.proposal_id_of(reply)
    if proposal_id is None:
        raise PlacetError(ErrorCode.INTERNAL, "The publish call made no proposal.")
    proposal = await find_proposal(caller, proposal_id)
    return json_answer(_pending(proposal, document_id), 201, Location=f"/api/proposals/{proposal_id}")


@router.post(
    "/api/publish-proposals/{proposal_id}/decisions",
    response_model=None,
    responses=documented({200: PublishDecided}),
)
async def on_decide(proposal_id: Id, body: PublishDecision, caller: CallerDep) -> Response:
    """Publish, or leave the document as it is. Answers when the publishing is done, or after a bounded wait."""
    proposal = await find_proposal(caller, proposal_id)
    if proposal.tool != rules.DECIDE_TOOL:
        raise not_found()
    decision = DecisionKind.APPROVE if body.approved else DecisionKind.REJECT
    result = await decide(caller, proposal_id, decision, proposal.digest)
    status, finish_reason = result.status, result.finish_reason
    # Only an approval that is complete leads anywhere: with a quorum, the first one leaves the proposal pending.
    if body.approved and status in (ProposalStatus.APPROVED, ProposalStatus.EXECUTING):
        ended = await _ended(caller, proposal)
        status, finish_reason = ended.status, ended.finish_reason
    return json_answer(rules.answer(proposal_id, status.value, finish_reason))


async def _ended(caller: Caller, proposal: ProposalView) -> ProposalView:
    """The proposal once it has completed, or as it is when the wait is over."""
    for pause in pauses(caller.ports.waits.publish_s):
        await asyncio.sleep(pause)
        proposal = await find_proposal(caller, proposal.proposal_id)
        if proposal.status is ProposalStatus.COMPLETED:
            break
    return proposal


def _pending(proposal: ProposalView, document_id: str) -> dict[str, Any]:
    return {
        "proposal_id": proposal.proposal_id,
        "status": proposal.status.value,
        "document_id": rules.document_id(proposal) or document_id,
        "lock_version": rules.lock_version(proposal),
        "expires_at": proposal.expires_at,
    }
