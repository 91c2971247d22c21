"""`/api/directory/users/{id}`: who a person is and what they may; for directory administrators."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from placet.contracts.directory import Person, PersonChange
from placet.contracts.execution import GetPerson, PersonReply, PutPerson
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import CallerDep, PersonId
from services.gateway.handlers.models import PersonBody

router = APIRouter(route_class=StrictRoute, tags=["directory"])


@router.get("/api/directory/users/{user_id}", response_model=None, responses=documented({200: Person}))
async def on_get(user_id: PersonId, caller: CallerDep) -> Response:
    command = GetPerson(grant=caller.grant(), user_id=user_id)
    return json_answer((await caller.ask("tool-executor", "get-person", command, PersonReply)).person)


@router.put("/api/directory/users/{user_id}", response_model=None, responses=documented({200: Person}))
async def on_put(user_id: PersonId, body: PersonBody, caller: CallerDep) -> Response:
    """Counts from the very next decision on."""
    change = PersonChange(**body.model_dump())
    command = PutPerson(grant=caller.grant(), user_id=user_id, change=change)
    return json_answer((await caller.ask("tool-executor", "put-person", command, PersonReply)).person)
