"""`/api/runs`: start, look at, follow and cancel a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from placet.contracts.envelope import now
from placet.contracts.runs import CancelAccepted, CancelRun
from services.gateway.domain.event_stream import HEARTBEAT, frame, start_after
from services.gateway.domain.runs import RunKey, view
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.audience import Audience
from services.gateway.handlers.caller import REQUEST_GRANT_S, CallerDep, Id
from services.gateway.handlers.chat import start_run
from services.gateway.handlers.citations import as_shown
from services.gateway.handlers.event_response import EventStreamResponse
from services.gateway.handlers.following import Follower
from services.gateway.handlers.models import Question, RunAccepted, RunAnswer
from services.gateway.handlers.visibility import denied, for_reading, own_run
from services.gateway.ports import Ports

router = APIRouter(route_class=StrictRoute, tags=["runs"])


@router.post("/api/runs", status_code=202, response_model=None, responses=documented({202: RunAccepted}))
async def on_start(body: Question, caller: CallerDep) -> Response:
    run = await start_run(caller, body)
    return json_answer({"run_id": run.run_id}, 202, Location=f"/api/runs/{run.run_id}")


@router.get("/api/runs/{run_id}", response_model=None, responses=documented({200: RunAnswer}))
async def on_get(run_id: Id, caller: CallerDep) -> Response:
    record, allowed = await for_reading(caller, run_id, "run.read")
    if record.end:
        record = record.with_end(as_shown(record.end, allowed))
    return json_answer(asdict(view(record, now())))


@router.get(
    "/api/runs/{run_id}/events",
    response_model=None,
    response_class=EventStreamResponse,
    responses=documented({200: None}),
)
async def on_events(run_id: Id, request: Request, caller: CallerDep) -> Response:
    """Server-sent events, from the start or after `Last-Event-ID`; ends after `run.completed`."""
    audience = Audience(caller, await own_run(caller, run_id, "run.follow"))
    if not await audience.admitted():
        raise await denied(caller, run_id, "run.follow", "a person who is not active")
    after = start_after(request.headers.get("last-event-id"))
    return EventStreamResponse(_frames(audience, caller.ports, RunKey(caller.tenant, run_id), after))


@router.post(
    "/api/runs/{run_id}/cancel", status_code=202, response_model=None, responses=documented({202: RunAccepted})
)
async def on_cancel(run_id: Id, caller: CallerDep) -> Response:
    await for_reading(caller, run_id, "run.cancel")
    # A grant for this run only: a request grant, good for anything the person may do, is never given to the agent.
    command = CancelRun(grant=caller.run_grant(run_id, REQUEST_GRANT_S), run_id=run_id)
    accepted = await caller.ask("agent", "cancel-run", command, CancelAccepted)
    return json_answer({"run_id": accepted.run_id}, 202)


async def _frames(audience: Audience, ports: Ports, key: RunKey, after: int) -> AsyncIterator[bytes]:
    """Ends, too, when the reader's rights have: whoever comes back learns that there is no such run."""
    follower = Follower(ports.runs, ports.live, ports.waits.heartbeat_s)
    async with aclosing(follower.follow(key, after)) as run:
        async for seen in run:
            if seen is not None:
                yield frame(await audience.view(seen))
            elif await audience.still_here():
                yield HEARTBEAT
            else:
                return
