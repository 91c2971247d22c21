"""Steps that tests of the approval service take, on the governance rig."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest

from placet.contracts.errors import PlacetError
from placet.contracts.proposals import ProposalStatus, ProposalView
from placet.contracts.tools import Route
from placet.contracts.topology import DURABLES
from placet.observability.context import new_id
from placet.policy.files import digest, read_policy_files
from placet.policy.watch import PolicyWatch
from placet.testkit.waiting import until
from services.approval.app import Approval, build
from tests.integration.governance_rig import GovernanceRig, edited

PATIENCE_S = 60.0


async def ask_refund(
    rig: GovernanceRig,
    order: str = "A1002",
    amount: float = 1,
    *,
    person: str = "alice",
    reason: str | None = None,
    **extra: Any,
) -> str:
    """The proposal that a refund asked for in a chat waits under; with `reason` given, it may be one that is open."""
    extra.setdefault("run_id", new_id("run"))
    extra.setdefault("route", Route.BUSINESS_ACTION)
    args = {"order_id": order, "amount": amount, "reason": reason or new_id("why")}
    return await asked(rig, person, "refund_payment", args, **extra)


async def asked(rig: GovernanceRig, person: str, tool: str, args: dict[str, Any], **extra: Any) -> str:
    reply = await rig.execute(person, tool, args, **extra)
    assert reply.proposal is not None, reply
    return reply.proposal.proposal_id


async def ended(rig: GovernanceRig, proposal_id: str, viewer: str = "alice") -> ProposalView:
    view: ProposalView | None = None

    async def completed() -> bool:
        nonlocal view
        view = await rig.proposal(viewer, proposal_id)
        return view.status is ProposalStatus.COMPLETED

    await until(completed, timeout_s=PATIENCE_S, what=f"the end of {proposal_id}")
    assert view is not None
    return view


async def names(rig: GovernanceRig, proposal_id: str, viewer: str = "alice") -> list[str]:
    """The names of the proposal's events, in order."""
    return [item.name for item in (await rig.history(viewer, proposal_id)).items]


async def refused(work: Awaitable[Any]) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await work
    return caught.value


@asynccontextmanager
async def replica(rig: GovernanceRig, **changes: Any) -> AsyncIterator[Approval]:
    """One more approval service beside the rig's own, sharing its queues."""
    service = await build(rig.approval_settings(), **changes)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@contextmanager
def policy(rig: GovernanceRig, table: str, change: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    """One table, changed until the block ends: the services take it up by themselves."""
    path = rig.policies / "tables" / table / "data.json"
    before = path.read_text(encoding="utf-8")
    with edited(path) as content:
        change(content)
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


async def settled(rig: GovernanceRig) -> None:
    """Wait until every service judges by the policy that lies there."""
    there = digest(read_policy_files(rig.policies))
    for service in (rig.approval, rig.executor):
        await until(partial(judges_by, service.watch, there), timeout_s=PATIENCE_S, what="one policy everywhere")


async def drained(rig: GovernanceRig, durable: str) -> None:
    """Wait until that queue has delivered all there is, and every delivery has been dealt with."""
    [stream] = [known.stream for known in DURABLES if known.name == durable]
    bus = await rig.nats.bus("provision")

    async def empty() -> bool:
        info = await bus.js.consumer_info(stream, durable)
        return not info.num_pending and not info.num_ack_pending

    await until(empty, timeout_s=PATIENCE_S, what=f"an empty {durable}")


def judges_by(watch: PolicyWatch, revision: str) -> bool:
    return watch.revision == revision
