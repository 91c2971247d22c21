"""Reactions to stored events and timers. Each may come twice and at any time: they go by the folded state alone."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from placet.contracts.events import Regraded
from placet.contracts.registry import event_spec
from placet.messaging.reading import Stored
from placet.messaging.work_queue import Job, Signal
from placet.observability import logs
from services.approval.domain import decide as rules
from services.approval.domain.commands import Command, Expire, Moment
from services.approval.domain.outcomes import conclusion
from services.approval.domain.state import Proposal
from services.approval.errors import Refusal
from services.approval.handlers.ending import Ending
from services.approval.handlers.records import DecisionRecords
from services.approval.handlers.regrading import Regrading
from services.approval.ports import Clock, ProposalIndex, ProposalLog, StaleError

log = logs.get(__name__)

_RACES = 5
# What makes a proposal one of somebody's in the listing: of its requester, or of who has approved it.
_LOOKED_UP = ("proposed", "approved", "edited")
# What is not shown for long, until `completed` follows, is left out.
_LISTED = (*_LOOKED_UP, "regraded", "completed")
# The listing may be away for long; then its events come again, and those behind them are not held up.
_LISTING_PATIENCE_S = 2.0
_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Reactions:
    log: ProposalLog
    index: ProposalIndex
    ending: Ending
    regrading: Regrading
    records: DecisionRecords
    clock: Clock
    # What has been followed up, but could not be listed yet: only that is tried again.
    _unlisted: OrderedDict[int, None] = field(default_factory=OrderedDict)

    async def on_effect_finished(self, job: Job) -> None:
        """The ledger says how the effect ended: the proposal ends the same way."""
        event = event_spec("tool-executor", job.event.name).model.model_validate(job.event.envelope.data)
        proposal_id = getattr(event, "proposal_id", None)
        outcome = conclusion(event)
        if proposal_id and outcome:
            await self._apply(job.event.tenant, proposal_id, outcome)

    async def on_stored(self, job: Job) -> None:
        """What follows a stored event, whoever stored it and died: surface, record, write the last event; then list."""
        event = job.event
        state = await self.log.recall(event.tenant, event.entity)
        if state and state.last_seq < event.seq:
            state = await self.log.load(event.tenant, event.entity)
        if state is None:
            return
        if event.seq not in self._unlisted:
            state = await self._follow(event, state)
        if event.name in _LISTED:
            await self._list(event, state)
        if event.name == "proposed":
            await self.regrading.on_proposed(state)

    async def _follow(self, event: Stored, state: Proposal) -> Proposal:
        if event.name == "completed":
            await self.ending.close(state)
            return state
        if event.name == "regraded":
            await self.ending.report_look(state, Regraded.model_validate(event.envelope.data))
        state = await self.ending.finish(await self.ending.surface(state))
        await self.records.of(event, state)
        if state.open and not state.surfaced:  # another replica was faster
            state = await self.log.load(event.tenant, event.entity) or state
        return state

    async def _list(self, event: Stored, state: Proposal) -> None:
        """Keep the listing in step with the log. Raises what it raised, or `TimeoutError`, to be tried again."""
        self._unlisted[event.seq] = None
        if len(self._unlisted) > _REMEMBERED:
            self._unlisted.popitem(last=False)
        async with asyncio.timeout(_LISTING_PATIENCE_S):
            await self.index.store(event.tenant, state)
        if event.name in _LOOKED_UP:
            judged = state.created_at if event.name == "proposed" else event.envelope.time
            await self.regrading.on_listed(state, event.seq, judged)
        self._unlisted.pop(event.seq, None)

    async def on_timer(self, signal: Signal) -> None:
        """The server's clock armed the timer and has fired it: whatever the clocks of replicas say, it is time."""
        tenant, proposal_id = signal.subject.split(".")[3:5]
        await self._apply(tenant, proposal_id, Expire(), signal.time)

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
