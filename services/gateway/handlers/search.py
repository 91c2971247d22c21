"""`GET /api/search`: a governed search outside a chat."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import NO_NUL, CallerDep
from services.gateway.handlers.models import Hit, Hits, ToolWaiting
from services.gateway.handlers.tools import governed_call, waiting

router = APIRouter(route_class=StrictRoute, tags=["knowledge"])


@router.get("/api/search", response_model=None, responses=documented({200: Hits, 202: ToolWaiting}))
async def on_search(
    caller: CallerDep,
    q: Annotated[str, Query(min_length=1, max_length=2000, pattern=NO_NUL)],
    k: Annotated[int, Query(ge=1, le=20)] = 10,
) -> Response:
    """What the caller may read and what fits, best first."""
    reply = await governed_call(caller, "search_knowledge", {"query": q, "k": k})
    return waiting(reply) or json_answer({"items": [_hit(item) for item in (reply.result or {}).get("items", [])]})


def _hit(item: dict[str, Any]) -> dict[str, Any]:
    """Only the published fields: a tool may know more about a hit than belongs outside."""
    return {name: item.get(name) for name in Hit.model_fields}
