"""`POST /api/chat`: a run, and a wait of bounded length for what becomes of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from placet.contracts.runs import RunFinish, StartRun
from services.gateway.domain.runs import COMPLETED, WAITING, RunKey, RunSeen, card
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import Caller, CallerDep
from services.gateway.handlers.citations import as_shown, shown_of
from services.gateway.handlers.following import Follower
from services.gateway.handlers.models import ChatAnswer, ChatPending, Question

router = APIRouter(route_class=StrictRoute, tags=["runs"])


async def start_run(caller: Caller, body: Question) -> StartRun:
    """Queue a run in the caller's name."""
    run_id = caller.new_id("run")
    command = StartRun(
        grant=caller.run_grant(run_id),
        run_id=run_id,
        conversation_id=body.conversation_id or caller.new_id("conv"),
        question=body.question,
    )
    await caller.ports.runs.start(caller.tenant, command)
    return command


@router.post("/api/chat", response_model=None, responses=documented({200: ChatAnswer, 202: ChatPending}))
async def on_chat(body: Question, caller: CallerDep) -> Response:
    """Ask, and wait for the answer, for the moment a person must decide, or for 30 s."""
    run = await start_run(caller, body)
    turn: dict[str, Any] = {"run_id": run.run_id, "conversation_id": run.conversation_id}
    seen = await _outcome(caller, run.run_id)
    if seen is None:
        return json_answer({**turn, "status": "running"}, 202)
    data = seen.event.data
    if seen.name == WAITING:
        return json_answer({**turn, "status": "waiting_for_human", "proposal": card(data)}, 202)
    return json_answer(
        {
            **turn,
            "answer": data.get("answer") or "",
            "citations": data.get("citations") or [],
            "finish_reason": data.get("finish_reason"),
        }
    )


async def _outcome(caller: Caller, run_id: str) -> RunSeen | None:
    """The first event that answers the chat; None when there is none in time, or when the gateway stops."""
    ports = caller.ports
    follower = Follower(ports.runs, ports.live, ports.waits.heartbeat_s)
    try:
        async with asyncio.timeout(ports.waits.chat_s), aclosing(follower.follow(RunKey(caller.tenant, run_id))) as run:
            async for seen in run:
                if seen and seen.name == WAITING:
                    return seen
                if seen and seen.name == COMPLETED:
                    return await _readable(caller, seen)
    except TimeoutError:
        return None
    return None


async def _readable(caller: Caller, seen: RunSeen) -> RunSeen:
    """A refusal holds nothing but the refusal: it is what a person without any right gets to read."""
    if seen.event.data.get("finish_reason") == RunFinish.REFUSED.value:
        return seen
    return as_shown(seen, await shown_of(caller, seen))
