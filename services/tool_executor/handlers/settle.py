"""A person says what became of an effect nobody could look up (G8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.execution import EffectState, SettleEffect
from placet.identity.grants import Purpose
from placet.messaging.rpc import Call
from placet.observability import logs
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.ledger import NOT_EXECUTED, Entry, State
from services.tool_executor.handlers.claimed import claimed_effect
from services.tool_executor.handlers.effects import Effect, EffectRunner
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.ports import EffectLedger, LedgerRaceError

log = logs.get(__name__)

Settled = ev.Executed | ev.Failed


@dataclass(frozen=True, slots=True)
class Settlements:
    callers: Callers
    registry: ToolRegistry
    effects: EffectRunner
    ledger: EffectLedger
    audit: AuditTrail

    async def on_settle(self, call: Call, command: SettleEffect) -> EffectState:
        caller = await self.callers.of(command.grant, call.tenant, purpose=Purpose.REQUEST)
        answer = await self.callers.duty(caller, "effects.settle")
        who: dict[str, Any] = {"actor": caller.person.id, "roles": caller.person.roles, "idempotency_key": command.key}
        if not answer.allowed:
            code = ErrorCode.PERMISSION_DENIED.value
            await self.audit.record(
                call.tenant, "access-denied", action="effects.settle", outcome="refused", code=code, **who
            )
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "You may not settle effects.")
        entry = await self.ledger.load(call.tenant, command.key)
        unknown = entry.effect
        if not isinstance(unknown, ev.Unknown):
            if entry.state is State.NOT_EXECUTED:
                raise not_found()
            if entry.settled_by is not None:
                raise PlacetError(ErrorCode.ALREADY_DECIDED, "This effect has been settled already.")
            raise PlacetError(ErrorCode.CONFLICT, f"This effect is {entry.state.value}; there is nothing to settle.")
        if command.outcome == "not_executed":
            await self._let_go(entry)
        name, event = settled(unknown, command, caller.person.id)
        try:
            entry = await self.ledger.append(call.tenant, command.key, name, event, entry)
        except LedgerRaceError as error:
            raise PlacetError(ErrorCode.ALREADY_DECIDED, "Somebody has settled this effect just now.") from error
        await self._confirm(entry)
        await record_settlement(self.audit, caller.person, event)
        return EffectState(key=command.key, state=entry.state.value, tool=unknown.tool, result=entry.result)

    async def _let_go(self, entry: Entry) -> None:
        effect = await _effect_of(entry, self.callers, self.registry)
        if effect:
            await self.effects.release(effect)

    async def _confirm(self, entry: Entry) -> None:
        """It is written down already: where the tool cannot be told now, the job of the unknown effect tells it."""
        try:
            await confirm(entry, self.callers, self.registry, self.effects)
        except PlacetError as error:
            log.warning("the tool will be told later", effect=entry.claim and entry.claim.key, code=error.code.value)


async def confirm(entry: Entry, callers: Callers, registry: ToolRegistry, effects: EffectRunner) -> None:
    """Tell the tool of an effect that a person settled as executed; of any other, nothing. As often as one likes."""
    if entry.settled_by and isinstance(entry.effect, ev.Executed):
        effect = await _effect_of(entry, callers, registry)
        if effect:
            await effects.confirm(effect)


async def _effect_of(entry: Entry, callers: Callers, registry: ToolRegistry) -> Effect | None:
    """What was claimed, for its tool to be told of; None where that tool is not here any more."""
    spec = registry.get(entry.claim.tool) if entry.claim else None
    return await claimed_effect(callers, spec, entry.claim) if spec and entry.claim else None


async def record_settlement(audit: AuditTrail, person: Person, event: Settled) -> None:
    """Once, however often it is written: whoever appended `event` may have died before recording it."""
    await audit.record(
        event.tenant,
        "effect-finished",
        action="effects.settle",
        outcome="executed" if isinstance(event, ev.Executed) else "not_executed",
        once=f"settled:{event.key}",
        actor=person.id,
        roles=person.roles,
        tool=event.tool,
        run_id=event.run_id,
        call_id=event.call_id,
        proposal_id=event.proposal_id,
        idempotency_key=event.key,
        note=event.result["note"] if isinstance(event, ev.Executed) else event.message,
    )


def settled(unknown: ev.Unknown, command: SettleEffect, by: str) -> tuple[str, Settled]:
    common: dict[str, Any] = unknown.model_dump(exclude={"reason"})
    if command.outcome == "executed":
        return "executed", ev.Executed(**common, result={"settled": "executed", "note": command.note}, settled_by=by)
    return "failed", ev.Failed(**common, code=NOT_EXECUTED, message=command.note, settled_by=by)
