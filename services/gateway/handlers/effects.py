"""`POST /api/effects/{key}/settle`: a person says what became of an effect of unknown outcome (G8)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from placet.contracts.execution import EffectState, SettleEffect
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import CallerDep, Id
from services.gateway.handlers.models import Settlement

router = APIRouter(route_class=StrictRoute, tags=["effects"])


@router.post("/api/effects/{key}/settle", response_model=None, responses=documented({200: EffectState}))
async def on_settle(key: Id, body: Settlement, caller: CallerDep) -> Response:
    command = SettleEffect(grant=caller.grant(), key=key, outcome=body.outcome, note=body.note)
    return json_answer(await caller.ask("tool-executor", "settle-effect", command, EffectState))
