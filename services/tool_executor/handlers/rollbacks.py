"""An effect that reads back wrong: alarmed, and its undo put before people as a governed call of its own (A9, G13).

The job is the ledger's `verification-failed` event, which is the known-bad state itself. Killed anywhere, it comes
again; the proposal's id comes from the effect's key, so that there is one offer however often it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.contracts.approvals import ProposeAction
from placet.contracts.envelope import now
from placet.contracts.errors import PlacetError
from placet.contracts.registry import effect_events
from placet.contracts.tools import Route
from placet.messaging.work_queue import Job
from placet.toolkit import ToolContext
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.facts import Circumstances, actor_of
from services.tool_executor.domain.masking import masked
from services.tool_executor.domain.rollback import origin_of, put_before_people, rollback_id
from services.tool_executor.errors import denial, tool_not_allowed
from services.tool_executor.handlers.assess import influence_of
from services.tool_executor.handlers.assessment import Assessor
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.handlers.packets import Packets
from services.tool_executor.ports import Approvals, Proposals

_MODELS = effect_events()


@dataclass(frozen=True, slots=True)
class Rollbacks:
    callers: Callers
    registry: ToolRegistry
    assessor: Assessor
    packets: Packets
    approvals: Approvals
    proposals: Proposals
    audit: AuditTrail

    async def on_verification_failed(self, job: Job) -> None:
        """Raises what is worth another try; a rollback that cannot be offered is alarmed, for people to act by hand."""
        failed = _MODELS[job.event.name].model_validate(job.event.envelope.data)
        if not isinstance(failed, ev.VerificationFailed):
            return
        await self._alarm(failed, "verification_failed", None)
        if failed.rollback is None:
            return
        try:
            await self._offer(failed)
        except PlacetError as error:
            if error.retryable:
                raise
            await self._alarm(failed, "rollback_not_offered", error)

    async def _offer(self, failed: ev.VerificationFailed) -> None:
        """Assess the undo with the rights and the world of now, and propose it. Raises `PlacetError`."""
        plan = failed.rollback or {}
        spec = self.registry.get(plan["tool"])
        if spec is None:
            raise tool_not_allowed()
        first = await self.proposals.find(failed.tenant, failed.proposal_id) if failed.proposal_id else None
        origin = origin_of(failed, first.origin if first else None)
        person = await self.callers.person(origin.tenant, origin.requester)
        context = ToolContext(actor_of(person), origin.call_id, origin.request_id, now())
        around = Circumstances(route=Route(origin.route), channel="http", influence=influence_of(origin))
        assessment = await self.assessor.assess(spec, context, person, plan["arguments"], around)
        if assessment.decision.effect == "deny":
            raise denial(assessment.decision)
        await self.assessor.check_rules(assessment, context)
        assessment = replace(assessment, decision=put_before_people(assessment.decision))
        proposal_id = rollback_id(failed.tenant, failed.key)
        packet = await self.packets.of(assessment, context, person, around)
        key = assessment.key(failed.tenant, proposal_id)
        await self.approvals.propose(
            ProposeAction(proposal_id=proposal_id, idempotency_key=key, origin=origin, packet=packet)
        )
        await self.audit.record(
            failed.tenant,
            "tool-decided",
            action=spec.name,
            outcome="require_approval",
            tool=spec.name,
            arguments=masked(packet.arguments, packet.obligations.mask),
            resource=packet.resource.model_dump() if packet.resource else None,
            decision=assessment.decision.model_dump(mode="json"),
            policy_revision=packet.policy_revision,
            actor=failed.requester,
            proposal_id=proposal_id,
            call_id=origin.call_id,
            idempotency_key=key,
            request_id=failed.request_id,
            note=f"rollback of {origin.rollback_of}",
        )

    async def _alarm(self, failed: ev.VerificationFailed, kind: str, error: PlacetError | None) -> None:
        """Ids and codes only: what was observed lies on the ledger, for those who may read it."""
        await self.audit.security_event(
            failed.tenant,
            kind,
            tool=failed.tool,
            actor=failed.requester,
            code=error.code.value if error else None,
            run_id=failed.run_id,
            call_id=failed.call_id,
            proposal_id=failed.proposal_id,
            idempotency_key=failed.key,
            request_id=failed.request_id,
            note=error.message if error else None,
        )
