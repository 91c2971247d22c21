"""Proposals, read from the APPROVALS stream and verified."""

from __future__ import annotations

from placet.contracts.events import Proposed
from placet.messaging.reading import EventReader


class StreamProposals:
    """Implements `Proposals`."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    async def find(self, tenant: str, proposal_id: str) -> Proposed | None:
        for event in await self._reader.entity(tenant, "approval", proposal_id):
            if event.name == "proposed" and event.verified:
                return Proposed.model_validate(event.envelope.data)
        return None
