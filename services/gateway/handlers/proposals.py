"""`/api/proposals`: what waits for a person, and that person's decision."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from placet.contracts.approvals import (
    DecideProposal,
    DecisionResult,
    GetProposal,
    ListProposalEvents,
    ListProposals,
    ProposalEvents,
    ProposalPage,
    ProposalReply,
)
from placet.contracts.proposals import Acknowledgements, DecisionKind, ProposalStatus, ProposalView
from services.gateway.handlers.answers import StrictRoute, documented, json_answer, page
from services.gateway.handlers.caller import NO_NUL, Caller, CallerDep, Id
from services.gateway.handlers.models import Decision, ProposalEventList, Proposals

router = APIRouter(route_class=StrictRoute, tags=["proposals"])

_APPROVAL = "approval"
# An edit is assessed by the executor on the way.
_DECIDE_TIMEOUT_S = 20.0


async def find_proposal(caller: Caller, proposal_id: str) -> ProposalView:
    """Raises the one `not_found` for what the caller may not see."""
    command = GetProposal(grant=caller.grant(), proposal_id=proposal_id)
    return (await caller.ask(_APPROVAL, "get-proposal", command, ProposalReply)).proposal


async def decide(
    caller: Caller, proposal_id: str, decision: DecisionKind, digest: str, details: Decision | None = None
) -> DecisionResult:
    """Raises `PlacetError`: permission_denied, already_decided, expired, conflict, challenge_failed, not_found."""
    answers = details.acknowledgements if details else None
    command = DecideProposal(
        grant=caller.grant(),
        proposal_id=proposal_id,
        decision=decision,
        digest=digest,
        args=details.args if details else None,
        message=details.message if details else None,
        acknowledgements=Acknowledgements(**answers.model_dump()) if answers else None,
        decision_id=caller.new_id("decision"),
    )
    return await caller.ask(_APPROVAL, "decide", command, DecisionResult, timeout_s=_DECIDE_TIMEOUT_S)


@router.get("/api/proposals", response_model=None, responses=documented({200: Proposals}))
async def on_list(
    caller: CallerDep,
    status: ProposalStatus | None = None,
    tool: Annotated[str | None, Query(max_length=200, pattern=NO_NUL)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=500, pattern=NO_NUL)] = None,
) -> Response:
    command = ListProposals(grant=caller.grant(), status=status, tool=tool, limit=limit, cursor=cursor)
    found = await caller.ask(_APPROVAL, "list-proposals", command, ProposalPage)
    return page(found.items, found.next)


@router.get("/api/proposals/{proposal_id}", response_model=None, responses=documented({200: ProposalView}))
async def on_get(proposal_id: Id, caller: CallerDep) -> Response:
    return json_answer(await find_proposal(caller, proposal_id))


@router.get("/api/proposals/{proposal_id}/events", response_model=None, responses=documented({200: ProposalEventList}))
async def on_events(proposal_id: Id, caller: CallerDep) -> Response:
    """The proposal's events as they lie on the append-only stream."""
    command = ListProposalEvents(grant=caller.grant(), proposal_id=proposal_id)
    found = await caller.ask(_APPROVAL, "list-proposal-events", command, ProposalEvents)
    return page(found.items, found.next)


@router.post("/api/proposals/{proposal_id}/decisions", response_model=None, responses=documented({200: DecisionResult}))
async def on_decide(proposal_id: Id, body: Decision, caller: CallerDep) -> Response:
    """Decide on exactly what `digest` stands for."""
    return json_answer(await decide(caller, proposal_id, body.decision, body.digest, body))
