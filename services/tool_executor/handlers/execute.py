"""`execute-tool`: the full order of one governed call (T3).

grant → known tool → route and manifest → identity fields stripped → schema → budget → resource and version → policy
with the directory of now → business rules → allow | deny | proposal → ledger → run → read back → audit → reply.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from placet.contracts.digests import derived_id, digest
from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.policy import Influence
from placet.messaging.rpc import Call
from placet.observability import metrics
from placet.toolkit import HandOver, ToolContext, ToolResult, ToolSpec
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.arguments import Stripped, strip_identity
from services.tool_executor.domain.facts import Circumstances, RunLimits, actor_of
from services.tool_executor.domain.ledger import Entry, State
from services.tool_executor.errors import denial, limit_reached, tool_not_allowed
from services.tool_executor.handlers.assessment import Assessment, Assessor, within
from services.tool_executor.handlers.effects import Effect, EffectRunner
from services.tool_executor.handlers.governed import Governed
from services.tool_executor.handlers.identity import Caller, Callers
from services.tool_executor.handlers.offer import Offer
from services.tool_executor.handlers.proposing import Proposing
from services.tool_executor.handlers.records import CallRecords, who
from services.tool_executor.handlers.replies import reply
from services.tool_executor.handlers.slots import TenantSlots
from services.tool_executor.ports import EffectLedger, LedgerRaceError, RunCounters

_MAX_HANDOVERS = 1
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class ToolCalls:
    callers: Callers
    registry: ToolRegistry
    offer: Offer
    assessor: Assessor
    effects: EffectRunner
    ledger: EffectLedger
    proposing: Proposing
    counters: RunCounters
    records: CallRecords
    limits: RunLimits
    slots: TenantSlots

    async def on_execute(self, call: Call, command: ExecuteTool) -> ToolReply:
        caller = await self.callers.of(command.grant, call.tenant)
        try:
            answer = await self._admit(call, caller, command)
        except PlacetError as error:
            metrics.TOOL_CALLS.labels(self.records.label(command.tool), error.code.value).inc()
            raise
        metrics.TOOL_CALLS.labels(answer.tool, answer.status).inc()
        return answer

    async def _admit(self, call: Call, caller: Caller, command: ExecuteTool) -> ToolReply:
        spec = self.registry.get(command.tool)
        offered = await self.offer.of(caller, command.route)
        if spec is None or spec.name not in offered:
            error = tool_not_allowed()
            if not caller.person.active:
                error = PlacetError(ErrorCode.PERMISSION_DENIED, "You may not do this.")
            await self.records.refused(caller, command, error, note=f"not offered on route {command.route.value}")
            raise error
        governed = self._governed(call, caller, command, spec, strip_identity(command.args))
        if governed.stripped.removed:
            await self.records.audit.security_event(
                governed.tenant,
                "identity_in_arguments",
                **who(caller, command),
                note=", ".join(governed.stripped.removed),
            )
        return await self._govern(await self._counted(governed), _MAX_HANDOVERS)

    async def _govern(self, governed: Governed, handovers: int) -> ToolReply:
        person, spec, context = governed.caller.person, governed.spec, governed.context
        assessment: Assessment | None = None
        try:
            assessment = await self.assessor.assess(spec, context, person, governed.stripped.arguments, governed.around)
            if assessment.decision.effect == "deny":
                raise denial(assessment.decision)
            await self.assessor.check_rules(assessment, context)
            await self._spend(governed, assessment)
        except PlacetError as error:
            asked = await self.proposing.asked_before(governed, error)
            if asked:
                return asked
            await self.records.refused(governed.caller, governed.command, error, spec=spec, assessment=assessment)
            raise
        self.offer.saw_revision(assessment.decision.policy_revision)
        with self.slots.taken(governed.tenant, assessment.decision.concurrency):
            return await self._carry_out(governed, assessment, handovers)

    async def _carry_out(self, governed: Governed, assessment: Assessment, handovers: int) -> ToolReply:
        spec = governed.spec
        if assessment.decision.effect == "require_approval":
            return await self.proposing.propose(governed, assessment)
        if spec.writes:
            return await self._write(governed, assessment)
        return await self._read(governed, assessment, handovers)

    async def _read(self, governed: Governed, assessment: Assessment, handovers: int) -> ToolReply:
        try:
            result = await within(governed.spec, governed.spec.handler(governed.context, assessment.args))
        except PlacetError as error:
            await self.records.refused(governed.caller, governed.command, error, assessment=assessment)
            raise
        if isinstance(result, HandOver):
            return await self._hand_over(governed, result, handovers)
        await self.records.finished(governed, assessment, result.data)
        return reply(governed, assessment, result)

    async def _hand_over(self, governed: Governed, handover: HandOver, handovers: int) -> ToolReply:
        spec = self.registry.get(handover.tool)
        offered = await self.offer.of(governed.caller, governed.command.route)
        if spec is None or handovers < 1 or spec.name not in offered:
            error = tool_not_allowed()
            await self.records.refused(governed.caller, governed.command, error, note=f"hand-over to {handover.tool}")
            raise error
        next_ = replace(governed, spec=spec, stripped=Stripped(handover.args, governed.stripped.removed))
        return await self._govern(next_, handovers - 1)

    async def _write(self, governed: Governed, assessment: Assessment) -> ToolReply:
        """A write that policy lets run at once; its key comes from the call, so a repeated call is the same effect."""
        effect = _effect(governed, assessment, occasion=f"{governed.context.run_id or ''}:{governed.first_call}")
        entry = await self.ledger.load(governed.tenant, effect.key)
        repeated = governed.repeated or entry.last_seq > 0
        try:
            entry = await self.effects.run(effect, entry)
        except LedgerRaceError:
            repeated = True
            entry = await self._end_by_other(effect)
        try:
            data = entry.answer()
        except PlacetError as error:
            await self.records.refused(governed.caller, governed.command, error, assessment=assessment)
            raise
        await self.records.finished(governed, assessment, data, entry=entry, key=effect.key)
        return reply(governed, assessment, ToolResult(data), key=effect.key, repeated=repeated)

    def _governed(
        self, call: Call, caller: Caller, command: ExecuteTool, spec: ToolSpec, stripped: Stripped
    ) -> Governed:
        grant = caller.grant
        context = ToolContext(
            actor=actor_of(caller.person),
            call_id=command.call_id,
            request_id=call.context.request_id,
            now=now(),
            run_id=grant.run_id,
        )
        influence = Influence(authors=command.authors, untrusted_documents=command.untrusted_documents)
        around = Circumstances(route=command.route, channel=caller.channel, influence=influence)
        return Governed(caller, command, spec, stripped, context, around, first_call=command.call_id)

    async def _counted(self, governed: Governed) -> Governed:
        """Counted against its run. An identical write is the first one again, also when both come at once (W8).

        An identical read is read again: under the rights and the content of now, which may be less than they were.
        """
        grant, command, spec = governed.caller.grant, governed.command, governed.spec
        if grant.run_id is None:
            return governed
        fingerprint = derived_id("same", spec.name, digest(governed.stripped.arguments)) if spec.writes else None
        use = await self.counters.take_call(grant.tenant, grant.run_id, command.call_id, fingerprint)
        first = use.firsts.get(fingerprint, command.call_id) if fingerprint else command.call_id
        around = replace(governed.around, budget=self.limits.after(use))
        return replace(governed, around=around, first_call=first)

    async def _spend(self, governed: Governed, assessment: Assessment) -> None:
        """Count what the call moves against its run. Raises `limit_reached` when another call was faster."""
        spending, run_id = assessment.decision.spending, governed.context.run_id
        if run_id is None or spending is None or spending.per_run is None:
            return
        counted = await self.counters.spend(
            governed.tenant, run_id, governed.first_call, spending.amount, spending.per_run
        )
        if not counted:
            raise limit_reached()

    async def _end_by_other(self, effect: Effect) -> Entry:
        """The same call is being executed by another worker: its end is this one's answer."""
        for _ in range(int(effect.spec.timeout_s / _PAUSE_S) + 1):
            entry = await self.ledger.load(effect.context.tenant, effect.key)
            if entry.ended or entry.state is State.UNKNOWN:
                return entry
            await asyncio.sleep(_PAUSE_S)
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "This call is being executed already.")


def _effect(governed: Governed, assessment: Assessment, *, occasion: str) -> Effect:
    key = assessment.key(governed.tenant, occasion)
    return Effect(
        key=key,
        spec=governed.spec,
        context=replace(
            governed.context,
            idempotency_key=key,
            resource_version=assessment.resource.version if assessment.resource else None,
        ),
        args=assessment.args,
        arguments=assessment.arguments,
        args_digest=digest(assessment.arguments),
        requester=governed.caller.person.id,
        spending=assessment.decision.spending,
    )
