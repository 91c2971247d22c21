"""Whether a model may still be asked, and what asking it has cost (U3)."""

from __future__ import annotations

from services.agent.adapters.graph.context import DriveContext
from services.agent.domain.limits import Usage, reached, silenced
from services.agent.ports import TenantCosts


class Allowance:
    def __init__(self, costs: TenantCosts) -> None:
        self._costs = costs

    async def for_a_round(self, usage: Usage, drive: DriveContext) -> str | None:
        """Which limit allows no further round; None when there may be one. Raises `PlacetError`."""
        return reached(usage, drive.limits) or await self._tenant(drive)

    async def for_a_word(self, usage: Usage, drive: DriveContext) -> str | None:
        """Which limit allows no further word of a model. Raises `PlacetError`."""
        return silenced(usage, drive.limits) or await self._tenant(drive)

    async def charge(self, drive: DriveContext, tokens: int) -> None:
        if cost := drive.limits.cost_of(tokens):
            await self._costs.add(drive.run.tenant, cost)

    async def _tenant(self, drive: DriveContext) -> str | None:
        limit = drive.limits.tenant_cost
        return "tenant_cost" if limit and await self._costs.spent(drive.run.tenant) >= limit else None
