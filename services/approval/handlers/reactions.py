"""Reactions to stored events and timers. Each may come twice and at any time: they go by the folded state alone."""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.envelope import now
from placet.contracts.registry import event_spec
from placet.messaging.work_queue import Job
from placet.observability import logs
from services.approval.domain import decide as rules
from services.approval.domain.commands import Command, Expire, Moment
from services.approval.domain.outcomes import conclusion
from services.approval.errors import Refusal
from services.approval.handlers.ending import Ending
from services.approval.ports import EffectLedger, ProposalIndex, ProposalLog, StaleError

log = logs.get(__name__)

_RACES = 5


@dataclass(frozen=True, slots=True)
class Reactions:
    log: ProposalLog
    ledger: EffectLedger
    index: ProposalIndex
    ending: Ending

    async def on_effect_finished(self, job: Job) -> None:
        """The ledger says how the effect ended: the proposal ends the same way."""
        event = event_spec("tool-executor", job.event.name).model.model_validate(job.event.envelope.data)
        proposal_id = getattr(event, "proposal_id", None)
        outcome = conclusion(event)
        if proposal_id and outcome:
            await self._apply(job.event.tenant, proposal_id, outcome)

    async def on_decided(self, job: Job) -> None:
        """Finish what a process that died in between has left: surface a proposal, or write its last event."""
        state = await self.log.load(job.event.tenant, job.event.entity)
        if state:
            await self.ending.finish(await self.ending.surface(state))

    async def on_timer(self, subject: str) -> None:
        tenant, proposal_id = subject.split(".")[3:5]
        await self._apply(tenant, proposal_id, Expire())

    async def on_stored(self, job: Job) -> None:
        """Keep the listing in step with the log."""
        state = await self.log.load(job.event.tenant, job.event.entity)
        if state:
            executing = state.approved and await self.ledger.claimed(job.event.tenant, state.idempotency_key)
            await self.index.store(job.event.tenant, state, executing=executing)

    async def _apply(self, tenant: str, proposal_id: str, command: Command) -> None:
        for _ in range(_RACES):
            state = await self.log.load(tenant, proposal_id)
            if state is None:
                return
            outcome = rules.decide(state, command, Moment(now()))
            if isinstance(outcome, Refusal):
                log.warning("reaction refused", proposal_id=proposal_id, code=outcome.code)
                return
            try:
                await self.ending.append_all(state, outcome)
            except StaleError:
                continue
            return
        raise StaleError(proposal_id)
