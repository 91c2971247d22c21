"""The proposal log on the APPROVALS stream: signed appends, verified reads."""

from __future__ import annotations

from datetime import datetime

from placet.audit.trail import AuditTrail
from placet.contracts.envelope import Event, now
from placet.contracts.registry import approval_events
from placet.messaging.append import Appender, ConflictError, NewEvent
from placet.messaging.reading import EventReader, Stored
from services.approval.domain.state import Proposal, Recorded, fold
from services.approval.ports import HistoryItem, StaleError

_MODELS = approval_events()
OWNER = "approval"


class StreamProposalLog:
    """Implements `ProposalLog`. An event whose signature does not hold is left out of every fold, and alarmed."""

    def __init__(self, appender: Appender, reader: EventReader, audit: AuditTrail) -> None:
        self._appender = appender
        self._reader = reader
        self._audit = audit

    async def load(self, tenant: str, proposal_id: str) -> Proposal | None:
        stored = await self._reader.entity(tenant, OWNER, proposal_id)
        state = fold([_recorded(event) for event in stored if event.verified and event.name in _MODELS])
        bad = [event for event in stored if not event.verified]
        if bad:
            await self._alarm(tenant, proposal_id, bad)
        return state

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
            raise StaleError(proposal_id) from error
        return done.seq, now()

    async def _alarm(self, tenant: str, proposal_id: str, bad: list[Stored]) -> None:
        for event in bad:
            await self._audit.security_event(
                tenant, "bad_signature", proposal_id=proposal_id, note=f"{event.subject} at sequence {event.seq}"
            )


def _recorded(event: Stored) -> Recorded:
    return Recorded(event.seq, event.name, event.envelope.time, _MODELS[event.name].model_validate(event.envelope.data))
