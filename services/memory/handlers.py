"""The three commands of the memory service.

Whose summary it is comes from the grant alone, so another person's summary and one that never was are the same
question: neither can be asked for, and both answer `not_found`.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.envelope import now
from placet.contracts.errors import not_found
from placet.contracts.runs import Done, SaveSummary, Summary, SummaryOf
from placet.identity.grants import GrantVerifier
from placet.messaging.rpc import Call
from services.memory.domain import Place, Remembered
from services.memory.errors import blank_summary
from services.memory.ports import SummaryStore


@dataclass(frozen=True, slots=True)
class Summaries:
    """Handlers raise `PlacetError`: `unauthenticated`, `not_found`, `dependency_unavailable`."""

    store: SummaryStore
    grants: GrantVerifier

    async def on_get(self, call: Call, command: SummaryOf) -> Summary:
        remembered = await self.store.load(self._place(call, command))
        if remembered is None:
            raise not_found()
        return Summary(summary=remembered.summary, updated_at=remembered.updated_at.isoformat())

    async def on_save(self, call: Call, command: SaveSummary) -> Done:
        place = self._place(call, command)
        summary = command.summary.strip()
        if not summary:
            raise blank_summary()
        await self.store.save(place, Remembered(summary, now()))
        return Done()

    async def on_forget(self, call: Call, command: SummaryOf) -> Done:
        if not await self.store.forget(self._place(call, command)):
            raise not_found()
        return Done()

    def _place(self, call: Call, command: SummaryOf) -> Place:
        grant = self.grants.verify(command.grant, call.tenant)
        return Place(grant.tenant, grant.actor, command.conversation_id)
