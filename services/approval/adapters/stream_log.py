"""The proposal log on the APPROVALS stream: signed appends, verified reads."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from datetime import datetime

from placet.audit.trail import AuditTrail
from placet.contracts import subjects
from placet.contracts.envelope import Event, now
from placet.contracts.registry import approval_events
from placet.messaging.append import Appender, ConflictError, NewEvent
from placet.messaging.reading import EventReader, Stored
from services.approval.domain.state import Proposal, Recorded, advance, fold, merged_into
from services.approval.ports import Born, Clock, Found, HistoryItem, StaleError

_MODELS = approval_events()
OWNER = "approval"


_REMEMBERED = 4096


class StreamProposalLog:
    """Implements `ProposalLog`. An event whose signature does not hold is left out of every fold, and alarmed.

    The latest states are remembered, bounded in number. A remembered state may be behind what other replicas have
    appended; compare-and-set finds that out for every append, and whoever refuses by such a state must look again.
    """

    def __init__(self, appender: Appender, reader: EventReader, audit: AuditTrail, clock: Clock = now) -> None:
        """`clock` is the one by which the appender dates events."""
        self._clock = clock
        self._appender = appender
        self._reader = reader
        self._audit = audit
        self._states: OrderedDict[tuple[str, str], Proposal] = OrderedDict()

    async def recall(self, tenant: str, proposal_id: str) -> Proposal | None:
        return self._states.get((tenant, proposal_id)) or await self.load(tenant, proposal_id)

    async def load(self, tenant: str, proposal_id: str) -> Proposal | None:
        return (await self.find(tenant, proposal_id)).state

    async def find(self, tenant: str, proposal_id: str) -> Found:
        stored = await self._reader.entity(tenant, OWNER, proposal_id)
        history = [_recorded(event) for event in stored if event.verified and event.name in _MODELS]
        state = fold(history)
        bad = [event for event in stored if not event.verified]
        if bad:
            await self._alarm(tenant, proposal_id, bad)
        if state:
            # What lies behind the last good event counts for compare-and-set, good or not.
            state = replace(state, last_seq=max(event.seq for event in stored))
            self._remember(tenant, state)
        return Found(state, merged_into(history), stored[-1].seq if stored else 0)

    async def history(self, tenant: str, proposal_id: str) -> list[HistoryItem]:
        return [
            HistoryItem(event.seq, event.name, event.envelope.time, event.envelope.data, bool(event.verified))
            for event in await self._reader.entity(tenant, OWNER, proposal_id)
        ]

    async def append(
        self, tenant: str, proposal_id: str, name: str, event: Event, expected: int
    ) -> tuple[int, datetime]:
        try:
            done = await self._appender.append(tenant, NewEvent(name, proposal_id, event), expected)
        except ConflictError as error:
            self._states.pop((tenant, proposal_id), None)
            raise StaleError(proposal_id) from error
        recorded = Recorded(done.seq, name, self._clock(), event)
        before = self._states.get((tenant, proposal_id))
        after = fold([recorded]) if expected == 0 else advance(before, recorded) if before else None
        if after and (expected == 0 or (before and before.last_seq == expected)):
            self._remember(tenant, after)
        return recorded.seq, recorded.time

    async def proposed(self, after: int, limit: int) -> list[Born]:
        """Implements `ProposalHistory`."""
        every = subjects.event_filter(subjects.ANY, OWNER, "proposed", subjects.ANY)
        stored = await self._reader.page(every, after=after, limit=limit)
        return [Born(event.tenant, event.entity, event.seq) for event in stored]

    def _remember(self, tenant: str, state: Proposal) -> None:
        self._states[(tenant, state.id)] = state
        self._states.move_to_end((tenant, state.id))
        if len(self._states) > _REMEMBERED:
            self._states.popitem(last=False)

    async def _alarm(self, tenant: str, proposal_id: str, bad: list[Stored]) -> None:
        for event in bad:
            await self._audit.security_event(
                tenant, "bad_signature", proposal_id=proposal_id, note=f"{event.subject} at sequence {event.seq}"
            )


def _recorded(event: Stored) -> Recorded:
    return Recorded(event.seq, event.name, event.envelope.time, _MODELS[event.name].model_validate(event.envelope.data))
