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
from services.gateway.handlers.caller import REQUEST_GRANT_S, Caller, CallerDep, Id
from services.gateway.handlers.chat import start_run
from services.gateway.handlers.citations import shown, with_shown_citations
from services.gateway.handlers.event_response import EventStreamResponse
from services.gateway.handlers.following import Follower
from services.gateway.handlers.models import Question, RunAccepted, RunAnswer
from services.gateway.handlers.visibility import own_run

router = APIRouter(route_class=StrictRoute, tags=["runs"])


@router.post("/api/runs", status_code=202, response_model=None, responses=documented({202: RunAccepted}))
async def on_start(body: Question, caller: CallerDep) -> Response:
    run = await start_run(caller, body)
    return json_answer({"run_id": run.run_id}, 202, Location=f"/api/runs/{run.run_id}")


@router.get("/api/runs/{run_id}", response_model=None, responses=documented({200: RunAnswer}))
async def on_get(run_id: Id, caller: CallerDep) -> Response:
    answer = asdict(view(await own_run(caller, run_id, "run.read"), now()))
    answer["citations"] = await shown(caller, answer["citations"])
    return json_answer(answer)


@router.get(
    "/api/runs/{run_id}/events",
    response_model=None,
    response_class=EventStreamResponse,
    responses=documented({200: None}),
)
async def on_events(run_id: Id, request: Request, caller: CallerDep) -> Response:
    """Server-sent events, from the start or after `Last-Event-ID`; ends after `run.completed`."""
    await own_run(caller, run_id, "run.follow")
    after = start_after(request.headers.get("last-event-id"))
    return EventStreamResponse(_frames(caller, RunKey(caller.tenant, run_id), after))


@router.post(
    "/api/runs/{run_id}/cancel", status_code=202, response_model=None, responses=documented({202: RunAccepted})
)
async def on_cancel(run_id: Id, caller: CallerDep) -> Response:
    await own_run(caller, run_id, "run.cancel")
    # A grant for this run only: a request grant, good for anything the person may do, is never given to the agent.
    command = CancelRun(grant=caller.run_grant(run_id, REQUEST_GRANT_S), run_id=run_id)
    accepted = await caller.ask("agent", "cancel-run", command, CancelAccepted)
    return json_answer({"run_id": accepted.run_id}, 202)


async def _frames(caller: Caller, key: RunKey, after: int) -> AsyncIterator[bytes]:
    ports = caller.ports
    follower = Follower(ports.runs, ports.live, ports.waits.heartbeat_s)
    async with aclosing(follower.follow(key, after)) as run:
        async for seen in run:
            yield HEARTBEAT if seen is None else frame(await with_shown_citations(caller, seen))
