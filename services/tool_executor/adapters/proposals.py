"""Proposals, read from the APPROVALS stream and verified."""

from __future__ import annotations

from placet.contracts.envelope import Event
from placet.contracts.events import Joined, Merged, Proposed
from placet.messaging.reading import EventReader

_MODELS: dict[str, type[Event]] = {"proposed": Proposed, "merged": Merged, "joined": Joined}


class StreamProposals:
    """Implements `Proposals`."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    async def find(self, tenant: str, proposal_id: str) -> Proposed | None:
        """Follows a call to the proposal that it was merged into, if that one has taken it up."""
        found = await self._events(tenant, proposal_id)
        merged = next((event for event in found if isinstance(event, Merged)), None)
        if merged and not any(isinstance(event, Proposed) for event in found):
            found = await self._events(tenant, merged.into)
            if not any(isinstance(event, Joined) and event.caller.proposal_id == proposal_id for event in found):
                return None
        return next((event for event in found if isinstance(event, Proposed)), None)

    async def _events(self, tenant: str, proposal_id: str) -> list[Event]:
        return [
            _MODELS[event.name].model_validate(event.envelope.data)
            for event in await self._reader.entity(tenant, "approval", proposal_id)
            if event.name in _MODELS and event.verified
        ]
