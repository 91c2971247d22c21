"""Budgets that several replicas share on the bus, and the identical call that is answered from the first (G11, W8)."""

from __future__ import annotations

import asyncio

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ToolReply
from placet.contracts.proposals import ProposalStatus
from placet.contracts.tools import Route
from placet.messaging.connection import Bus
from placet.messaging.kv import KeyValue
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.tool_executor.adapters.counters import KvRunCounters
from services.tool_executor.adapters.presence import Presence
from services.tool_executor.adapters.spending import KvTenantSpending
from tests.integration.governance_rig import GovernanceRig


@pytest.fixture
async def bus(governance: GovernanceRig) -> Bus:
    return await governance.nats.bus("tool-executor")


async def in_run(
    rig: GovernanceRig, run_id: str, tool: str, args: dict[str, object], call_id: str | None = None
) -> ToolReply | ErrorCode:
    try:
        return await rig.execute("alice", tool, args, route=Route.BUSINESS_ACTION, run_id=run_id, call_id=call_id)
    except PlacetError as error:
        return error.code


def refund(amount: float, order: str = "A2001") -> dict[str, object]:
    return {"order_id": order, "amount": amount, "reason": "arrived broken"}


@pytest.mark.spec("G11", "G2")
async def test_two_calls_that_together_overspend_their_run_leave_one(governance: GovernanceRig) -> None:
    """Each alone is within the 5,000 of a session; policy may see neither when it decides the other."""
    run_id = new_id("run")
    amounts = [2600 + number for number in range(4)]
    replies = await asyncio.gather(*(in_run(governance, run_id, "refund_payment", refund(n)) for n in amounts))
    assert replies.count(ErrorCode.LIMIT_REACHED) == 3
    later = await in_run(governance, run_id, "refund_payment", refund(2500))
    assert later is ErrorCode.LIMIT_REACHED
    small = await in_run(governance, run_id, "refund_payment", refund(100))
    assert isinstance(small, ToolReply)


@pytest.mark.spec("G11", "W9")
async def test_call_repeated_after_a_crash_spends_once(governance: GovernanceRig) -> None:
    run_id, call_id = new_id("run"), new_id("call")
    for _ in range(3):
        reply = await in_run(governance, run_id, "refund_payment", refund(1900), call_id)
        assert isinstance(reply, ToolReply)
    assert isinstance(await in_run(governance, run_id, "refund_payment", refund(1901)), ToolReply)


@pytest.mark.spec("W8", "U3", "W9")
async def test_identical_writes_at_once_in_one_run_are_one_effect(governance: GovernanceRig) -> None:
    run_id = new_id("run")
    args: dict[str, object] = {"order_id": "A1008", "note": f"called back {run_id}"}
    replies = await asyncio.gather(*(in_run(governance, run_id, "add_order_note", args) for _ in range(4)))
    answers = [reply for reply in replies if isinstance(reply, ToolReply)]
    assert len(answers) == 4
    assert len({reply.idempotency_key for reply in answers}) == len({str(reply.result) for reply in answers}) == 1
    assert sorted(reply.repeated for reply in answers) == [False, True, True, True]
    other = await in_run(governance, new_id("run"), "add_order_note", args)
    assert isinstance(other, ToolReply)
    assert (other.repeated, other.idempotency_key == answers[0].idempotency_key) == (False, False)


@pytest.mark.spec("W8", "A1")
async def test_identical_call_is_its_open_proposal_and_then_its_result(governance: GovernanceRig) -> None:
    run_id = new_id("run")
    replies = await asyncio.gather(
        *(in_run(governance, run_id, "refund_payment", refund(1.25, "A1008")) for _ in range(2))
    )
    proposals = {reply.proposal.proposal_id for reply in replies if isinstance(reply, ToolReply) and reply.proposal}
    assert len(proposals) == 1
    [proposal_id] = proposals
    await governance.approve("dave", proposal_id)

    async def completed() -> bool:
        return (await governance.proposal("alice", proposal_id)).status is ProposalStatus.COMPLETED

    await until(completed)
    again = await in_run(governance, run_id, "refund_payment", refund(1.25, "A1008"))
    assert isinstance(again, ToolReply)
    assert (again.status, again.repeated, (again.result or {})["amount"]) == ("ok", True, 1.25)


@pytest.mark.spec("W8")
async def test_identical_call_after_a_rejection_is_asked_anew(governance: GovernanceRig) -> None:
    run_id = new_id("run")
    first = await in_run(governance, run_id, "refund_payment", refund(1.5, "A1008"))
    assert isinstance(first, ToolReply)
    assert first.proposal is not None
    await governance.decide("dave", first.proposal.proposal_id, "reject", message="no")
    again = await in_run(governance, run_id, "refund_payment", refund(1.5, "A1008"))
    assert isinstance(again, ToolReply)
    assert again.proposal is not None
    assert again.proposal.proposal_id != first.proposal.proposal_id


@pytest.mark.spec("G11", "U3")
async def test_calls_of_one_run_are_counted_by_all_replicas_without_losing_one(bus: Bus) -> None:
    replicas = [KvRunCounters(KeyValue(bus, "COUNTERS")) for _ in range(3)]
    run_id = new_id("run")
    uses = await asyncio.gather(
        *(replicas[number % 3].take_call("acme", run_id, f"call-{number}", "same") for number in range(12))
    )
    assert sorted(use.calls for use in uses) == list(range(12))
    firsts = {use.firsts["same"] for use in uses if use.firsts}
    assert len(firsts) == 1


@pytest.mark.spec("G11")
async def test_day_of_a_tenant_is_not_overspent_by_many_effects_of_several_replicas(bus: Bus) -> None:
    """60 effects of 10 from three replicas against 300: thirty go on, and what does not take place is given back."""
    replicas = [KvTenantSpending(KeyValue(bus, "COUNTERS")) for _ in range(3)]
    tenant = new_id("tenant")
    allowed = await asyncio.gather(
        *(replicas[number % 3].reserve(tenant, f"eff-{number}", 10, 300) for number in range(60))
    )
    assert allowed.count(True) == 30
    taken = [number for number, ok in enumerate(allowed) if ok]
    again = await asyncio.gather(*(replicas[0].reserve(tenant, f"eff-{number}", 10, 300) for number in taken))
    assert all(again)
    await replicas[1].release(tenant, f"eff-{taken[0]}")
    assert await replicas[2].reserve(tenant, "eff-new", 10, 300)
    replicas[0].keep(tenant, "eff-new")
    assert not await replicas[0].reserve(tenant, "eff-more", 0.01, 300)


@pytest.mark.spec("G11")
async def test_replicas_count_each_other_and_forget_who_has_left(bus: Bus) -> None:
    bucket = KeyValue(bus, "PRESENCE")
    first, second = Presence(bucket, "one"), Presence(bucket, "two")
    await first.renew()
    alone = first.workers
    await second.renew()
    await first.renew()
    assert (first.workers, second.workers) == (alone + 1, alone + 1)
    await second.stop()
    await first.renew()
    assert first.workers == alone
    await first.stop()
