"""When somebody's rights change: waiting runs are looked at again, and what they no longer carry is withdrawn (R4, U4).

The message is only a hint where to look. What holds is asked of the executor, in the name of the run's own grant; so a
forged or repeated message withdraws nothing that still stands. And a message that is lost costs nothing but time: a run
that is taken up again, and the executor before it executes, ask for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.audit import AuditRecord
from placet.contracts.errors import PlacetError
from placet.contracts.tools import Route
from placet.messaging.work_queue import Job
from placet.observability import logs
from services.agent.domain.resume import OWNER_LEFT, Parked, to_withdraw
from services.agent.domain.run import Run
from services.agent.ports import Offered, Proposals, RunControl, ToolDoor, Trail

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Rights:
    control: RunControl
    tools: ToolDoor
    proposals: Proposals
    trail: Trail

    async def on_changed(self, job: Job) -> None:
        """Raises `PlacetError` while the executor or the approval service is away: the job comes again."""
        resource = AuditRecord.model_validate(job.event.envelope.data).resource or {}
        kind, name = str(resource.get("type", "")), str(resource.get("id", ""))
        tenant = job.event.tenant
        for parked in await self.control.parked(tenant):
            if parked.concerned_by(kind, name):
                run = await self.control.recall(tenant, parked.run_id)
                if run is not None:
                    await self.look_again(run, parked)

    async def look_again(self, run: Run, parked: Parked) -> None:
        """Withdraw the proposals of a waiting run whose owner has left, or that rest on what is readable no longer."""
        try:
            offered = await self.tools.offered(run, Route(parked.route))
            readable = await self._readable(run, parked, offered)
        except PlacetError as error:
            if error.retryable:
                raise
            # The grant has ended: nobody can be asked in its name. The executor asks before it executes.
            log.info("a waiting run cannot be looked at", run_id=run.run_id, code=error.code)
            return
        reason = OWNER_LEFT if offered.active is False else "evidence_gone"
        for proposal_id in to_withdraw(parked, readable, active=offered.active):
            withdrawn = await self.proposals.withdraw(run, proposal_id)
            await self.trail.record(
                run.tenant,
                "run-reconsidered",
                action="rights",
                outcome="withdrawn" if withdrawn else "decided_already",
                actor=run.owner,
                run_id=run.run_id,
                proposal_id=proposal_id,
                note=reason,
            )

    async def _readable(self, run: Run, parked: Parked, offered: Offered) -> list[str]:
        if offered.active is False:
            return []
        return [citation.chunk_id for citation in await self.tools.resolve(run, parked.chunks)]
