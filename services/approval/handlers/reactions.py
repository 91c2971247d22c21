"""Reactions to stored events and timers. Each may come twice and at any time: they go by the folded state alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.contracts import subjects
from placet.contracts.events import Regraded
from placet.contracts.registry import event_spec
from placet.messaging.work_queue import Job, Signal
from placet.observability import logs
from placet.observability.context import RequestContext, bound
from services.approval.domain import decide as rules
from services.approval.domain.commands import Command, Expire, Moment
from services.approval.domain.outcomes import conclusion
from services.approval.errors import Refusal
from services.approval.handlers.ending import Ending
from services.approval.handlers.records import DecisionRecords
from services.approval.handlers.regrading import Regrading
from services.approval.ports import Clock, ProposalIndex, ProposalLog, StaleError

log = logs.get(__name__)

_RACES = 5
# What makes a proposal one of somebody's in the listing: of its requester, or of who has approved it.
_LOOKED_UP = ("waiting-for-human", "approved", "edited")


@dataclass(frozen=True, slots=True)
class Reactions:
    log: ProposalLog
    index: ProposalIndex
    ending: Ending
    regrading: Regrading
    records: DecisionRecords
    clock: Clock

    async def on_effect_finished(self, job: Job) -> None:
        """The ledger says how the effect ended: the proposal ends the same way."""
        event = event_spec("tool-executor", job.event.name).model.model_validate(job.event.envelope.data)
        proposal_id = getattr(event, "proposal_id", None)
        outcome = conclusion(event)
        if proposal_id and outcome:
            await self._apply(job.event.tenant, proposal_id, outcome)

    async def on_decided(self, job: Job) -> None:
        """What follows a stored event, whoever stored it and died: surface, record, write the last event, close."""
        event = job.event
        state = await self.log.recall(event.tenant, event.entity)
        if state and state.last_seq < event.seq:
            state = await self.log.load(event.tenant, event.entity)
        if state is None:
            return
        if event.name == "completed":
            await self.ending.close(state)
            return
        if event.name == "regraded":
            await self.ending.report_look(state, Regraded.model_validate(event.envelope.data))
        state = await self.ending.finish(await self.ending.surface(state))
        await self.records.of(event, state)
        if event.name == "proposed":
            await self.regrading.on_proposed(state)

    async def on_timer(self, signal: Signal) -> None:
        """The server's clock armed the timer and has fired it: whatever the clocks of replicas say, it is time."""
        tenant, proposal_id = signal.subject.split(".")[3:5]
        await self._apply(tenant, proposal_id, Expire(), signal.time)

    async def on_stored(self, signal: Signal) -> None:
        """Keep the listing in step with the log; what is shown nowhere yet, or not for long, is left out.

        The event itself is not read: what is listed is the state, folded from what is validly signed.
        """
        event = subjects.parse(signal.subject)
        entity = event.entity or ""
        state = await self.log.recall(event.tenant, entity)
        if state and state.last_seq < signal.seq:
            state = await self.log.load(event.tenant, entity)
        if state is None:
            return
        await self.index.store(event.tenant, state)
        if event.name in _LOOKED_UP:
            judged = state.created_at if event.name == "waiting-for-human" else signal.time
            with bound(RequestContext(state.origin.request_id, event.tenant)):
                await self.regrading.on_listed(state, signal.seq, judged)

    async def _apply(self, tenant: str, proposal_id: str, command: Command, at_least: datetime | None = None) -> None:
        moment = Moment(max(self.clock(), at_least) if at_least else self.clock())
        for attempt in range(_RACES):
            look = self.log.load if attempt else self.log.recall
            state = await look(tenant, proposal_id)
            if state is None:
                return
            outcome = rules.decide(state, command, moment)
            if isinstance(outcome, Refusal) and not attempt:
                continue
            if isinstance(outcome, Refusal):
                log.warning("reaction refused", proposal_id=proposal_id, code=outcome.code)
                return
            try:
                await self.ending.append_all(state, outcome)
            except StaleError:
                continue
            return
        raise StaleError(proposal_id)
