"""`/api/index/rebuilds`: the index built again from the originals, while searches go on."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from placet.contracts.documents import GetRebuild, RebuildState, StartRebuild
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import CallerDep, Id

router = APIRouter(route_class=StrictRoute, tags=["knowledge"])

_EXECUTOR = "tool-executor"


@router.post("/api/index/rebuilds", status_code=202, response_model=None, responses=documented({202: RebuildState}))
async def on_start(caller: CallerDep) -> Response:
    """Rebuild the index of every document, or join the rebuilding that goes on."""
    command = StartRebuild(grant=caller.grant(), rebuild_id=caller.new_id("rebuild"))
    state = await caller.ask(_EXECUTOR, "start-rebuild", command, RebuildState)
    return json_answer(state, 202, Location=f"/api/index/rebuilds/{state.rebuild_id}")


@router.get("/api/index/rebuilds/{rebuild_id}", response_model=None, responses=documented({200: RebuildState}))
async def on_get(rebuild_id: Id, caller: CallerDep) -> Response:
    """How far it has come, in versions."""
    command = GetRebuild(grant=caller.grant(), rebuild_id=rebuild_id)
    return json_answer(await caller.ask(_EXECUTOR, "get-rebuild", command, RebuildState))
