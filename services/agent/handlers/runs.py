"""The three messages of the agent: a run to start, a proposal that has ended, a run to cancel."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from pydantic import ValidationError

from placet.contracts.errors import PlacetError, not_found
from placet.contracts.events import Completed
from placet.contracts.runs import CancelAccepted, CancelRun, StartRun
from placet.identity.grants import GrantVerifier, Purpose
from placet.messaging.rpc import Call
from placet.messaging.work_queue import Job, RetryLater
from placet.observability import logs
from placet.observability.context import current
from services.agent.domain.run import Run, RunRecord
from services.agent.handlers.driver import Driver
from services.agent.ports import RunControl, RunLogs, Trail

log = logs.get(__name__)

_LONGEST_WAIT_S = 30
_MOST_ATTEMPTS = 40


@dataclass(frozen=True, slots=True)
class Runs:
    grants: GrantVerifier
    logs: RunLogs
    control: RunControl
    driver: Driver
    trail: Trail

    async def on_start_run(self, job: Job) -> None:
        """Drive a run that was asked for. Delivered again (a worker died), it goes on from where it stands."""
        event = job.event
        try:
            command = StartRun.model_validate(event.envelope.data)
            if command.run_id != event.entity:
                raise ValueError("the run's id is not the subject's")
            grant = self.grants.verify(command.grant, event.tenant, purpose=Purpose.RUN, run_id=command.run_id)
        except (ValidationError, ValueError, PlacetError) as error:
            # Nobody is known who asked for this, so there is nobody to tell; the record keeps it.
            await self.trail.security_event(
                event.tenant, "bad_start_run", run_id=event.entity, note=type(error).__name__, actor=None
            )
            return
        run = Run(
            tenant=grant.tenant,
            run_id=command.run_id,
            owner=grant.actor,
            conversation_id=command.conversation_id,
            question=command.question,
            grant=command.grant,
            request_id=grant.request_id,
        )
        record = await self.logs.read(run.tenant, run.run_id)
        if record.started and record.owner != run.owner:
            await self.trail.security_event(run.tenant, "run_of_another", run_id=run.run_id, actor=run.owner)
            return
        if not record.completed:
            await self.control.remember(run)
        await self.driver.drive(run, attempt=job.attempt)

    async def on_proposal_completed(self, job: Job) -> None:
        """Resume every run that waits for this proposal. Calls made over HTTP have no run."""
        completed = Completed.model_validate(job.event.envelope.data)
        if completed.origin.tenant != job.event.tenant:
            return
        waiting = {completed.origin.run_id, *(caller.run_id for caller in completed.joined)} - {None}
        # Each for itself: a run that is busy, or broken, does not keep the others from going on.
        ends = await asyncio.gather(
            *(self._resume(job, completed, str(run_id)) for run_id in waiting), return_exceptions=True
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _resume(self, job: Job, completed: Completed, run_id: str) -> None:
        tenant = job.event.tenant
        record = await self.logs.read(tenant, run_id)
        if record.completed and await self.control.recall(tenant, run_id) is None:
            return
        if not record.started:
            # The proposal was decided before its run was ever driven to its first event here; or there is no run.
            if job.attempt > _MOST_ATTEMPTS:
                log.warning("a proposal ended for a run that never was", run_id=run_id)
                return
            raise RetryLater(min(job.attempt, _LONGEST_WAIT_S))
        run = await self.control.recall(tenant, run_id) or _unremembered(tenant, run_id, record)
        if run.owner != completed.origin.requester:
            await self.trail.security_event(tenant, "decision_for_another", run_id=run_id, actor=run.owner)
            return
        await self.driver.drive(run, attempt=job.attempt, completed=completed)

    async def on_cancel_run(self, call: Call, command: CancelRun) -> CancelAccepted:
        """Accept the wish of the run's owner. A run that waits for people ends before the answer is given.

        Raises `PlacetError`: `unauthenticated`, `not_found` for a run of somebody else, `dependency_unavailable`.
        """
        grant = self.grants.verify(command.grant, call.tenant, purpose=Purpose.RUN, run_id=command.run_id)
        record = await self.logs.read(grant.tenant, command.run_id)
        if record.started and record.owner != grant.actor:
            raise not_found()
        if not record.completed:
            await self.control.request_cancel(grant.tenant, command.run_id, grant.actor)
            self.driver.wish_cancel(grant.tenant, command.run_id)
            run = await self.control.recall(grant.tenant, command.run_id)
            if run is not None:
                await self.driver.cancel_parked(replace(run, grant=command.grant))
        return CancelAccepted(run_id=command.run_id)


def _unremembered(tenant: str, run_id: str, record: RunRecord) -> Run:
    """A run whose question and grant have expired with their bucket: it can still be told how its proposal ended."""
    return Run(
        tenant=tenant,
        run_id=run_id,
        owner=record.owner or "",
        conversation_id=record.conversation_id,
        question="",
        grant="",
        request_id=current().request_id,
    )
