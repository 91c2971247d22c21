"""Refunds through a payment provider that loses answers, dies, and pays something else, through the real services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import FinishReason, ProposalStatus, ProposalView
from placet.packs.business import payout
from placet.testkit.waiting import until
from tests.integration.foundations import foundations
from tests.integration.governance_rig import GovernanceRig
from tests.integration.payment_provider import Provider

WAIT_S = 30.0


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start()
    yield provider
    await provider.stop()


@pytest.fixture(scope="module")
async def house(provider: Provider) -> AsyncIterator[GovernanceRig]:
    """A house of its own, whose refunds are paid by the provider. It gives up early, and asks again soon."""
    async with foundations() as (nats, postgres, directory):
        rig = GovernanceRig(nats, postgres, directory)
        await rig.start(
            pack_settings={"payment_url": provider.url, "payment_timeout_s": "1"},
            tool_executor_effect_attempts=3,
            tool_executor_lookup_interval_s=1,
        )
        yield rig
        await rig.stop()


@pytest.fixture(autouse=True)
def healthy(provider: Provider) -> None:
    provider.faults.clear()
    provider.factor, provider.retry_after = Decimal(1), "1"


async def propose(house: GovernanceRig, order: str, amount: float) -> ProposalView:
    args = {"order_id": order, "amount": amount, "reason": "arrived broken"}
    reply = await house.execute("alice", "refund_payment", args)
    assert reply.proposal is not None
    return await house.proposal("dave", reply.proposal.proposal_id)


async def ended(house: GovernanceRig, proposal_id: str) -> ProposalView:
    async def completed() -> bool:
        return (await house.proposal("alice", proposal_id)).status is ProposalStatus.COMPLETED

    await until(completed, timeout_s=WAIT_S, what=f"end of {proposal_id}")
    return await house.proposal("alice", proposal_id)


async def refund(house: GovernanceRig, order: str, amount: float) -> ProposalView:
    view = await propose(house, order, amount)
    await house.approve("dave", view.proposal_id)
    return await ended(house, view.proposal_id)


async def ledger(house: GovernanceRig, key: str) -> list[str]:
    return [event.name for event in await house.effects_reader().entity("acme", "tool-executor", key)]


async def rows(house: GovernanceRig, order: str) -> list[tuple[float, str]]:
    reply = await house.execute("alice", "query_business_data", {"entity": "refunds", "order_id": order})
    return [(item["amount"], item["state"]) for item in (reply.result or {})["items"]]


async def refundable(house: GovernanceRig, order: str) -> float:
    reply = await house.execute("alice", "query_business_data", {"entity": "orders", "order_id": order})
    found: float = (reply.result or {})["items"][0]["refundable"]
    return found


@pytest.mark.spec("A8", "G8", "W9")
async def test_approved_refund_is_paid_once_and_compared_with_what_the_provider_says(
    house: GovernanceRig, provider: Provider
) -> None:
    view = await refund(house, "A1002", 10)
    assert view.finish_reason is FinishReason.SUCCESS
    assert (provider.paid[view.idempotency_key], await rows(house, "A1002")) == (1, [(10, "paid")])
    assert provider.of_order("A1002")[0]["amount"] == "10.00"


@pytest.mark.spec("B9")
async def test_undo_of_a_provider_refund_is_rehearsed_only_while_the_provider_answers(
    house: GovernanceRig, provider: Provider
) -> None:
    view = await propose(house, "A1002", 1)
    assert (view.rollback.tool, view.rollback.rehearsed) == ("cancel_refund", True)
    assert view.rollback.arguments["refund_id"].startswith("R-")
    await provider.stop()
    try:
        unrehearsed = await propose(house, "A1002", 2)
    finally:
        await provider.start()
    assert not unrehearsed.rollback.rehearsed
    assert unrehearsed.rollback.note.startswith("dependency_unavailable")
    assert unrehearsed.idempotency_key not in provider.refunds


@pytest.mark.spec("G8", "W9")
@pytest.mark.parametrize(
    ("fault", "order"),
    [("silent", "A1003"), ("dropped", "A1004"), ("garbage", "A1005"), ("error_after", "A1007")],
)
async def test_answer_lost_after_the_money_was_taken_ends_verified_by_lookup(
    house: GovernanceRig, provider: Provider, fault: str, order: str
) -> None:
    provider.faults.append(fault)
    view = await refund(house, order, 5)
    assert view.finish_reason is FinishReason.SUCCESS
    assert (provider.paid[view.idempotency_key], await rows(house, order)) == (1, [(5, "paid")])
    events = await house.effects_reader().entity("acme", "tool-executor", view.idempotency_key)
    assert [event.name for event in events] == ["claimed", "executed", "verified"]
    assert events[1].envelope.data["found_by_lookup"]


@pytest.mark.spec("G8", "T4")
async def test_provider_that_is_busy_or_fails_before_paying_is_asked_again_under_the_same_key(
    house: GovernanceRig, provider: Provider
) -> None:
    provider.faults.extend(["error_before", "busy"])
    view = await refund(house, "A1008", 5)
    assert view.finish_reason is FinishReason.SUCCESS
    assert (provider.paid[view.idempotency_key], await rows(house, "A1008")) == (1, [(5, "paid")])


@pytest.mark.spec("G7", "T4")
async def test_refund_the_provider_declines_fails_and_counts_for_nothing(
    house: GovernanceRig, provider: Provider
) -> None:
    before = await refundable(house, "A1001")
    provider.faults.append("declined")
    view = await refund(house, "A1001", 7)
    assert view.finish_reason is FinishReason.FAILED
    assert (view.outcome or {})["message"] == "The payment provider declined."
    assert await rows(house, "A1001") == [(7, "declined")]
    assert await refundable(house, "A1001") == before


@pytest.mark.spec("G8", "G12")
async def test_provider_gone_after_taking_the_money_ends_unknown_and_settles_itself_when_it_is_back(
    house: GovernanceRig, provider: Provider
) -> None:
    view = await propose(house, "A1006", 5)
    provider.faults.append("silent")
    await house.approve("dave", view.proposal_id)
    await until(lambda: provider.paid[view.idempotency_key] == 1, timeout_s=WAIT_S)
    await provider.stop()
    try:
        assert (await ended(house, view.proposal_id)).finish_reason is FinishReason.UNKNOWN
        assert await rows(house, "A1006") == [(5, "pending")]
        with pytest.raises(PlacetError) as blocked:
            await house.settle("alice", view.idempotency_key, "executed")
        assert blocked.value.code is ErrorCode.PERMISSION_DENIED
    finally:
        await provider.start()

    async def settled() -> bool:
        return "verified" in await ledger(house, view.idempotency_key)

    await until(settled, timeout_s=WAIT_S, what="the lookup when the provider is back")
    assert await ledger(house, view.idempotency_key) == ["claimed", "unknown", "executed", "verified"]
    assert (provider.paid[view.idempotency_key], await rows(house, "A1006")) == (1, [(5, "paid")])

    async def recorded() -> bool:
        page = await house.audit(type="effect-finished", limit=500)
        mine = [entry.record for entry in page.items if entry.record.idempotency_key == view.idempotency_key]
        return [record.outcome for record in mine] == ["unknown", "verified"]

    await until(recorded, timeout_s=WAIT_S, what="both ends in the audit trail")


@pytest.mark.spec("G8", "G12")
async def test_refund_that_a_person_settles_as_not_paid_counts_for_nothing(
    house: GovernanceRig, provider: Provider
) -> None:
    before = await refundable(house, "A1001")
    view = await propose(house, "A1001", 9)
    await provider.stop()
    try:
        await house.approve("dave", view.proposal_id)
        assert (await ended(house, view.proposal_id)).finish_reason is FinishReason.UNKNOWN
        assert await refundable(house, "A1001") == before - 9
        await house.settle("erin", view.idempotency_key, "not_executed")
    finally:
        await provider.start()
    assert await refundable(house, "A1001") == before
    assert view.idempotency_key not in provider.refunds


@pytest.mark.spec("G8", "G12")
@pytest.mark.parametrize(("amount", "away"), [(11, False), (13, True)], ids=["books_at_hand", "books_away_first"])
async def test_refund_that_a_person_settles_as_paid_is_paid_in_the_books(
    house: GovernanceRig, provider: Provider, monkeypatch: pytest.MonkeyPatch, amount: int, away: bool
) -> None:
    """What is said stands on the ledger first; books that were away then are brought up to it afterwards."""
    view = await propose(house, "A1001", amount)
    await provider.stop()
    try:
        await house.approve("dave", view.proposal_id)
        assert (await ended(house, view.proposal_id)).finish_reason is FinishReason.UNKNOWN
        if away:
            monkeypatch.setattr(payout, "book", away_once(payout.book))
        await house.settle("erin", view.idempotency_key, "executed")
    finally:
        await provider.start()

    async def paid() -> bool:
        return (amount, "paid") in await rows(house, "A1001")

    await until(paid, timeout_s=WAIT_S, what="the books")
    assert await ledger(house, view.idempotency_key) == ["claimed", "unknown", "executed"]


def away_once(work: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    calls = 0

    async def first_fails(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The database is not available.")
        await work(*arguments)

    return first_fails


@pytest.mark.spec("A9", "G13", "B9")
async def test_wrong_amount_at_the_provider_is_known_bad_and_its_undo_cancels_the_refund(
    house: GovernanceRig, provider: Provider
) -> None:
    before = await refundable(house, "A1002")
    provider.factor = Decimal(10)
    view = await refund(house, "A1002", 3)
    assert view.finish_reason is FinishReason.VERIFICATION_FAILED
    outcome: dict[str, Any] = view.outcome or {}
    assert outcome["observed"]["provider"]["amount"] == "30.00"
    undo_id = outcome["rollback"]["proposal_id"]
    provider.factor = Decimal(1)

    async def offered() -> bool:
        try:
            return (await house.proposal("dave", undo_id)).status is ProposalStatus.PENDING
        except PlacetError:
            return False

    await until(offered, timeout_s=WAIT_S, what="the undo before the finance approvers")
    undo = await house.proposal("dave", undo_id)
    assert (undo.tool, undo.rollback_of) == ("cancel_refund", view.proposal_id)
    with pytest.raises(PlacetError) as own:
        await house.approve("alice", undo_id)
    assert own.value.code is ErrorCode.PERMISSION_DENIED
    await house.approve("dave", undo_id)
    assert (await ended(house, undo_id)).finish_reason is FinishReason.SUCCESS
    assert [refund["status"] for refund in provider.of_order("A1002") if refund["amount"] == "3.00"] == ["cancelled"]
    assert (3, "cancelled") in await rows(house, "A1002")
    assert await refundable(house, "A1002") == before
