"""Approved proposals: authorize again, read the world again, and only then make the effect happen (A8, A10).

The job is the signed `approved` event itself, so nothing lies between a decision and its execution that could be lost.
Killed anywhere, the event is delivered again; the ledger says how far the work had come.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.contracts.directory import Person
from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.policy import Spending
from placet.contracts.proposals import Rollback
from placet.contracts.registry import approval_events
from placet.contracts.tools import Route
from placet.messaging.work_queue import Job, RetryLater
from placet.observability import logs
from placet.toolkit import Preview, ToolContext
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain import arguments as untrusted
from services.tool_executor.domain.facts import Circumstances, actor_of
from services.tool_executor.domain.ledger import Entry, State
from services.tool_executor.domain.masking import masked
from services.tool_executor.domain.packet import described, drift, gone
from services.tool_executor.errors import denial, tool_not_allowed
from services.tool_executor.handlers.assess import channel_of, influence_of
from services.tool_executor.handlers.assessment import Assessment, Assessor
from services.tool_executor.handlers.effects import Effect, EffectRunner
from services.tool_executor.handlers.evidence import EvidenceOfNow
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.ports import EffectLedger, LedgerRaceError

log = logs.get(__name__)

_MODELS = approval_events()
_RACE_DELAY_S = 1.0


@dataclass(frozen=True, slots=True)
class Commits:
    callers: Callers
    registry: ToolRegistry
    assessor: Assessor
    effects: EffectRunner
    ledger: EffectLedger
    audit: AuditTrail
    evidence: EvidenceOfNow
    attempts: int

    async def on_approved(self, job: Job) -> None:
        approved = _MODELS[job.event.name].model_validate(job.event.envelope.data)
        if not isinstance(approved, ev.Approved) or not approved.final:
            return
        if job.attempt == 1:
            # Nearly every job is new, and its claim (or failure) finds out about the others by compare-and-set.
            try:
                await self._report(approved, await self._bring_to_end(approved, Entry(), last_attempt=False))
            except LedgerRaceError:
                log.info("not the first to see this", key=approved.idempotency_key)
            except PlacetError as error:
                raise _patience(error) from error
            else:
                return
        entry = await self.ledger.load(approved.origin.tenant, approved.idempotency_key)
        if entry.ended or entry.state is State.UNKNOWN:
            await self.effects.close_spending(approved.origin.tenant, approved.idempotency_key, entry)
            if job.attempt > 1:  # whoever brought it to this end may have died before recording it
                await self._report(approved, entry)
            return
        if job.attempt == 1:
            raise RetryLater(_RACE_DELAY_S)
        try:
            ended = await self._bring_to_end(approved, entry, last_attempt=job.attempt >= self.attempts)
        except LedgerRaceError as error:
            raise RetryLater(_RACE_DELAY_S) from error
        except PlacetError as error:
            raise _patience(error) from error
        await self._report(approved, ended)

    async def _bring_to_end(self, approved: ev.Approved, entry: Entry, *, last_attempt: bool) -> Entry:
        requester, *approvers = await self._people(approved)
        effect = self._effect(approved, requester)
        if effect is None:
            return await self._refuse(approved, entry, tool_not_allowed())
        if entry.state is State.NOT_EXECUTED:
            try:
                spending = await self._reauthorize(approved, effect, requester, tuple(approvers))
            except PlacetError as error:
                if error.retryable:
                    raise
                return await self.effects.fail(effect, entry, error)
            effect = replace(effect, spending=spending)
        return await self.effects.run(effect, entry, last_attempt=last_attempt)

    def _effect(self, approved: ev.Approved, requester: Person) -> Effect | None:
        origin, packet = approved.origin, approved.packet
        spec = self.registry.get(packet.tool)
        if spec is None:
            return None
        context = ToolContext(
            actor=actor_of(requester),
            call_id=origin.call_id,
            request_id=origin.request_id,
            now=now(),
            run_id=origin.run_id,
            idempotency_key=approved.idempotency_key,
            resource_version=packet.resource.version if packet.resource else None,
            approvers=tuple(approval.by for approval in approved.approvals),
        )
        return Effect(
            key=approved.idempotency_key,
            spec=spec,
            context=context,
            args=untrusted.parse(spec, packet.arguments),
            arguments=packet.arguments,
            args_digest=packet.args_digest,
            requester=origin.requester,
            proposal_id=approved.proposal_id,
            spending=Spending(amount=0),  # an effect that is taken over closes what was reserved under its key
        )

    async def _reauthorize(
        self, approved: ev.Approved, effect: Effect, requester: Person, approvers: tuple[Person, ...]
    ) -> Spending | None:
        """Raises `PlacetError`: a denial with the rights of now, or `conflict` when the world has moved (B1)."""
        assessment = await self._assess_again(approved, effect, requester, approvers)
        if assessment.decision.effect == "deny":
            raise denial(assessment.decision)
        if assessment.decision.effect != "allow":
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "The approvals no longer carry this call.")
        fresh = assessment.packet(approved.origin.tenant, Preview(summary=""), Rollback())
        moved = drift(approved.packet, fresh)
        if moved:
            raise PlacetError(ErrorCode.CONFLICT, described(moved), diff=moved)
        if approved.origin.rollback_of is None:  # an undo is for what was done, whatever that rested on
            await self.evidence.require(requester, approved.origin.lineage)
        await self.assessor.check_rules(assessment, effect.context)
        return assessment.decision.spending

    async def _assess_again(
        self, approved: ev.Approved, effect: Effect, requester: Person, approvers: tuple[Person, ...]
    ) -> Assessment:
        origin = approved.origin
        around = Circumstances(
            route=Route(origin.route),
            channel=channel_of(origin),
            stage="commit",
            influence=influence_of(origin),
            approvers=approvers,
        )
        try:
            return await self.assessor.assess(effect.spec, effect.context, requester, approved.packet.arguments, around)
        except PlacetError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            # Nothing is there for one who was dismissed; for anybody else, the world has moved.
            if not requester.active:
                raise PlacetError(ErrorCode.PERMISSION_DENIED, "The requester may no longer do this.") from error
            raise PlacetError(
                ErrorCode.CONFLICT, "What was approved is no longer there.", diff=gone(approved.packet)
            ) from error

    async def _people(self, approved: ev.Approved) -> list[Person]:
        """The requester and then the approvers, as the directory knows them now."""
        ids = (approved.origin.requester, *(approval.by for approval in approved.approvals))
        return await asyncio.gather(*(self.callers.person(approved.origin.tenant, one) for one in ids))

    async def _refuse(self, approved: ev.Approved, entry: Entry, error: PlacetError) -> Entry:
        """The tool is gone since: nothing can be run, and nothing was."""
        origin = approved.origin
        event = ev.Failed(
            key=approved.idempotency_key,
            tool=approved.packet.tool,
            tenant=origin.tenant,
            requester=origin.requester,
            proposal_id=approved.proposal_id,
            run_id=origin.run_id,
            call_id=origin.call_id,
            request_id=origin.request_id,
            code=error.code.value,
            message=error.message,
        )
        return await self.ledger.append(origin.tenant, approved.idempotency_key, "failed", event, entry)

    async def _report(self, approved: ev.Approved, entry: Entry) -> None:
        origin, packet = approved.origin, approved.packet
        if packet.resource and packet.resource.type == "document" and entry.result is not None:
            # What may be read has changed: runs that wait and rest on it are looked at again.
            await self.audit.record(
                origin.tenant,
                "document-changed",
                action=packet.tool,
                outcome="ok",
                actor=origin.requester,
                resource={"type": "document", "id": packet.resource.id},
                proposal_id=approved.proposal_id,
                request_id=origin.request_id,
            )
        mask = packet.obligations.mask
        await self.audit.record(
            origin.tenant,
            "effect-finished",
            action=packet.tool,
            outcome=entry.state.value,
            actor=origin.requester,
            tool=packet.tool,
            arguments=masked(packet.arguments, mask),
            resource=packet.resource.model_dump() if packet.resource else None,
            approvers=tuple(approval.by for approval in approved.approvals),
            policy_revision=packet.policy_revision,
            result=masked(entry.result, mask),
            code=entry.code,
            run_id=origin.run_id,
            call_id=origin.call_id,
            proposal_id=approved.proposal_id,
            idempotency_key=approved.idempotency_key,
            request_id=origin.request_id,
        )


def _patience(error: PlacetError) -> Exception:
    """A tool that names a time to come back is asked again then, not before."""
    if error.code is ErrorCode.RATE_LIMITED and "retry_after_s" in error.details:
        return RetryLater(error.details["retry_after_s"])
    return error
