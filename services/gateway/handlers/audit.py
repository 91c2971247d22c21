"""`GET /api/audit/events`: the audit record, for auditors."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from placet.contracts.approvals import AuditPage, QueryAudit
from services.gateway.handlers.answers import StrictRoute, documented, page
from services.gateway.handlers.caller import NO_NUL, CallerDep
from services.gateway.handlers.models import AuditEvents

router = APIRouter(route_class=StrictRoute, tags=["audit"])

Filter = Annotated[str | None, Query(max_length=128, pattern=NO_NUL)]
# A sequence of a stream, as text or number: never more digits than 64 bits have.
_MAX_SEQUENCE = 2**63 - 1


@router.get("/api/audit/events", response_model=None, responses=documented({200: AuditEvents}))
async def on_list(
    caller: CallerDep,
    after: Annotated[int, Query(ge=0, le=_MAX_SEQUENCE)] = 0,
    cursor: Annotated[int | None, Query(ge=0, le=_MAX_SEQUENCE, description="The same as `after`.")] = None,
    type_: Annotated[str | None, Query(alias="type", max_length=100, pattern=NO_NUL)] = None,
    actor: Filter = None,
    run_id: Filter = None,
    proposal_id: Filter = None,
    request_id: Filter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    command = QueryAudit(
        grant=caller.grant(),
        after=after if cursor is None else cursor,
        type=type_,
        actor=actor,
        run_id=run_id,
        proposal_id=proposal_id,
        request_id=request_id,
        limit=limit,
    )
    found = await caller.ask("approval", "query-audit", command, AuditPage)
    return page(found.items, found.next)
