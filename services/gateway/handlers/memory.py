"""`/api/conversations/{id}/memory`: the caller's own summary of a conversation."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from placet.contracts.runs import Done, Summary, SummaryOf
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import CallerDep, Id
from services.gateway.handlers.citations import require_standing

router = APIRouter(route_class=StrictRoute, tags=["memory"])


@router.get("/api/conversations/{conversation_id}/memory", response_model=None, responses=documented({200: Summary}))
async def on_get(conversation_id: Id, caller: CallerDep) -> Response:
    await require_standing(caller)
    command = SummaryOf(grant=caller.grant(), conversation_id=conversation_id)
    return json_answer(await caller.ask("memory", "get-summary", command, Summary))


@router.delete(
    "/api/conversations/{conversation_id}/memory",
    status_code=204,
    response_model=None,
    responses=documented({204: None}),
)
async def on_delete(conversation_id: Id, caller: CallerDep) -> Response:
    await require_standing(caller)
    command = SummaryOf(grant=caller.grant(), conversation_id=conversation_id)
    await caller.ask("memory", "forget-summary", command, Done)
    return Response(status_code=204)
