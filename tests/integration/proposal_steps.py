"""Steps that tests of proposals take on the governance rig."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.errors import PlacetError
from placet.contracts.proposals import ProposalStatus, ProposalView
from placet.contracts.tools import Route
from placet.observability.context import new_id
from tests.integration.governance_rig import GovernanceRig

DEADLINE_S = 15.0


async def propose(
    rig: GovernanceRig,
    order: str,
    amount: float = 10,
    *,
    person: str = "alice",
    reason: str | None = None,
    **extra: Any,
) -> str:
    """A new proposal each time, unless `reason` is given: the same, still open, is one proposal."""
    args = {"order_id": order, "amount": amount, "reason": reason or new_id("broken")}
    extra.setdefault("run_id", new_id("run"))
    extra.setdefault("route", Route.BUSINESS_ACTION)
    reply = await rig.execute(person, "refund_payment", args, **extra)
    assert reply.status == "waiting_for_human"
    assert reply.proposal is not None
    return reply.proposal.proposal_id


async def ended(rig: GovernanceRig, proposal_id: str, viewer: str = "alice") -> ProposalView:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            view = await rig.proposal(viewer, proposal_id)
            if view.status is ProposalStatus.COMPLETED:
                return view
            await asyncio.sleep(0.02)


async def refunds(rig: GovernanceRig, order: str) -> list[dict[str, Any]]:
    reply = await rig.execute("alice", "query_business_data", {"entity": "refunds", "order_id": order})
    items: list[dict[str, Any]] = (reply.result or {})["items"]
    return items


async def refused(work: Any) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await work
    return caught.value
