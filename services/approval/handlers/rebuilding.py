"""Making the listing anew from the stream: after it was lost, or when its shape has changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from services.approval.ports import ProposalHistory, ProposalIndex, ProposalLog

_PAGE = 256
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """Safe beside running services: in the listing, older news never replaces newer."""

    history: ProposalHistory
    log: ProposalLog
    index: ProposalIndex

    async def run(self) -> int:
        """Store every proposal of every tenant again; returns how many there are."""
        number = after = 0
        slots = asyncio.Semaphore(_AT_ONCE)

        async def store(tenant: str, proposal_id: str) -> None:
            async with slots:
                state = await self.log.load(tenant, proposal_id)
                if state:
                    await self.index.store(tenant, state)

        while born := await self.history.proposed(after, _PAGE):
            await asyncio.gather(*(store(one.tenant, one.proposal_id) for one in born))
            number, after = number + len(born), born[-1].seq
        return number
