"""`refund_payment` against a real database: ownership, rules, races, repetition."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from pack_world import ALICE, DAVE, GLOBEX_ALICE, GRACE, MIKE, PackWorld, actor, outcome, pack_world

from placet.contracts.errors import ErrorCode, PlacetError
from tests.integration.refund_steps import REASON, REFUND


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[PackWorld]:
    async with pack_world() as world:
        yield world


@pytest.fixture
def world(shared: PackWorld) -> PackWorld:
    """On a day of its own, so that one test does not use up another's daily limit."""
    shared.next_day()
    return shared


async def refunded(world: PackWorld, order_id: str) -> Decimal:
    rows = await world.sql("SELECT coalesce(sum(amount), 0) FROM business.refunds WHERE order_id = :id", id=order_id)
    return rows[0][0]


@pytest.mark.spec("G7")
async def test_refund_valid_pays_back_and_raises_the_version(world: PackWorld) -> None:
    key, args = world.key(), {"order_id": await world.order("299.00"), "amount": 99.5, "reason": REASON}
    before = await world.resource(ALICE, REFUND, **args)
    result = await world.run(ALICE, REFUND, key, before.version, **args)
    after = await world.resource(ALICE, REFUND, **args)
    assert (result["amount"], result["refundable"], result["currency"]) == (99.5, 199.5, "CNY")
    assert (before.version, after.version, result["order_version"]) == ("1", "2", 2)
    assert (before.facts["refundable"], after.facts["refundable"]) == ("299.00", "199.50")
    listed = await world.run(ALICE, "query_business_data", entity="refunds", order_id=args["order_id"])
    assert [item["refund_id"] for item in listed["items"]] == [result["refund_id"]]


@pytest.mark.spec("T3", "A1")
async def test_refund_resource_carries_the_facts_policy_reads(world: PackWorld) -> None:
    view = await world.resource(ALICE, REFUND, order_id="A1001", amount=1, reason=REASON)
    assert (view.type, view.id, view.tenant) == ("order", "A1001", "acme")
    assert view.facts["paid"] == view.facts["paid_amount"] == "299.00"
    assert view.facts["served_by"] == ["alice", "support"]
    assert {"tenant", "state", "currency", "refundable", "customer_id"} <= view.facts.keys()


@pytest.mark.spec("A1")
async def test_refund_preview_shows_before_and_after_and_no_way_back(world: PackWorld) -> None:
    order_id = await world.order("299.00")
    preview = await world.preview(ALICE, REFUND, order_id=order_id, amount=100, reason=REASON)
    changes = {change.field: (change.before, change.after) for change in preview.changes}
    assert changes["refundable"] == ("299.00", "199.00")
    assert preview.touched == (order_id,)
    assert preview.rollback is None
    assert any("cannot be pulled back" in line for line in preview.blast_radius)
    assert "100.00 CNY" in preview.summary


@pytest.mark.spec("G7", "I3", "I4")
@pytest.mark.parametrize(
    ("who", "order_id"),
    [
        (ALICE, "A3001"),  # a customer of grace
        (GRACE, "A1001"),  # a customer of alice
        (ALICE, "A9999"),  # nobody's
        (actor("bob", "rnd", team="rnd"), "A1001"),
        (MIKE, "A1001"),  # dismissed, in the right team
        (GLOBEX_ALICE, "A1002"),  # only acme has it
        (actor("alice", tenant="globex' OR '1'='1"), "A1001"),
    ],
)
async def test_refund_order_not_served_is_not_found_everywhere(world: PackWorld, who: Any, order_id: str) -> None:
    args = {"order_id": order_id, "amount": 1, "reason": REASON}
    seen = set()
    for call in (
        world.resource(who, REFUND, **args),
        world.validate(who, REFUND, **args),
        world.preview(who, REFUND, **args),
        world.run(who, REFUND, world.key(), **args),
    ):
        with pytest.raises(PlacetError) as caught:
            await call
        seen.add((caught.value.code, caught.value.message, str(caught.value.details)))
    assert len(seen) == 1
    assert seen.pop()[0] is ErrorCode.NOT_FOUND


@pytest.mark.spec("A4")
async def test_refund_finance_approver_sees_the_order_but_cannot_pay_it_back(world: PackWorld) -> None:
    args = {"order_id": await world.order(), "amount": 1, "reason": REASON}
    assert (await world.resource(DAVE, REFUND, **args)).id == args["order_id"]
    assert await outcome(world.run(DAVE, REFUND, world.key(), **args)) == "not_found"
    assert await refunded(world, args["order_id"]) == 0


@pytest.mark.spec("I4")
async def test_refund_same_order_id_in_two_tenants_touches_only_ones_own(world: PackWorld) -> None:
    args = {"order_id": "A1001", "amount": 500, "reason": REASON}
    assert await outcome(world.validate(ALICE, REFUND, **args)) == "invalid_arguments"  # acme's was paid 299
    await world.run(GLOBEX_ALICE, REFUND, "shared-key", **args)
    rows = await world.sql("SELECT tenant, amount FROM business.refunds WHERE order_id = 'A1001'")
    assert [tuple(row) for row in rows] == [("globex", Decimal("500.00"))]
    # The same key in the other tenant is another key.
    assert await world.lookup(ALICE, REFUND, "shared-key", **args) is None


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("placed", "invalid_arguments"),
        ("paid", "ok"),
        ("shipped", "invalid_arguments"),
        ("delivered", "ok"),
        ("cancelled", "invalid_arguments"),
    ],
)
async def test_refund_by_state_only_paid_and_delivered(world: PackWorld, state: str, expected: str) -> None:
    args = {"order_id": await world.order(state=state), "amount": 1, "reason": REASON}
    assert await outcome(world.validate(ALICE, REFUND, **args)) == expected
    assert await outcome(world.run(ALICE, REFUND, world.key(), **args)) == expected
    assert await refunded(world, args["order_id"]) == (1 if expected == "ok" else 0)


@pytest.mark.spec("G7")
async def test_refund_above_what_is_left_is_refused_and_writes_nothing(world: PackWorld) -> None:
    order_id = await world.order("299.00")
    await world.run(ALICE, REFUND, world.key(), order_id=order_id, amount=200, reason=REASON)
    args = {"order_id": order_id, "amount": 99.01, "reason": REASON}
    for call in (world.validate(ALICE, REFUND, **args), world.run(ALICE, REFUND, key := world.key(), **args)):
        with pytest.raises(PlacetError) as caught:
            await call
        assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        assert caught.value.details["refundable"] == "99.00"
    assert await world.lookup(ALICE, REFUND, key, **args) is None
    assert await refunded(world, order_id) == 200
    # The day's total was not charged for the refused one either.
    totals = await world.sql("SELECT amount FROM business.refund_totals WHERE day = :day", day=world.now.date())
    assert [row[0] for row in totals] == [Decimal("200.00")]


@pytest.mark.spec("G7")
async def test_refund_ten_at_once_never_exceed_what_was_paid(world: PackWorld) -> None:
    order_id = await world.order("299.00")
    calls = [
        outcome(world.run(ALICE, REFUND, world.key(), order_id=order_id, amount=70, reason=REASON)) for _ in range(10)
    ]
    ends = Counter(await asyncio.gather(*calls))
    assert ends == {"ok": 4, "invalid_arguments": 6}
    assert await refunded(world, order_id) == 280
    version = await world.sql("SELECT version FROM business.orders WHERE order_id = :id", id=order_id)
    assert version[0][0] == 5


@pytest.mark.spec("G8", "W9")
async def test_refund_ten_at_once_with_one_key_pay_once_with_one_result(world: PackWorld) -> None:
    args = {"order_id": await world.order("299.00"), "amount": 20, "reason": REASON}
    key = world.key()
    results = await asyncio.gather(*(world.run(ALICE, REFUND, key, **args) for _ in range(10)))
    assert all(result == results[0] for result in results)
    assert await refunded(world, args["order_id"]) == 20
    found = await world.lookup(ALICE, REFUND, key, **args)
    assert found is not None
    assert found.data == results[0]


@pytest.mark.spec("G8")
async def test_refund_repeated_after_other_changes_returns_the_first_result(world: PackWorld) -> None:
    args = {"order_id": await world.order("299.00"), "amount": 299, "reason": REASON}
    key = world.key()
    first = await world.run(ALICE, REFUND, key, "1", **args)
    await world.run(ALICE, "add_order_note", world.key(), order_id=args["order_id"], note="called the customer")
    # Neither the moved version nor the empty order matters: it is the same effect, told again.
    assert await world.run(ALICE, REFUND, key, "1", **args) == first
    assert await refunded(world, args["order_id"]) == 299


@pytest.mark.spec("G8")
async def test_refund_key_of_another_call_is_a_conflict(world: PackWorld) -> None:
    order_id, key = await world.order("299.00"), world.key()
    await world.run(ALICE, REFUND, key, order_id=order_id, amount=10, reason=REASON)
    assert await outcome(world.run(ALICE, REFUND, key, order_id=order_id, amount=11, reason=REASON)) == "conflict"
    assert await outcome(world.run(ALICE, "add_order_note", key, order_id=order_id, note="x")) == "conflict"
    assert await world.lookup(ALICE, "add_order_note", key, order_id=order_id, note="x") is None
    assert await refunded(world, order_id) == 10


@pytest.mark.spec("A8")
async def test_refund_version_moved_is_a_conflict_and_writes_nothing(world: PackWorld) -> None:
    args = {"order_id": await world.order("299.00"), "amount": 10, "reason": REASON}
    signed = (await world.resource(ALICE, REFUND, **args)).version
    await world.run(ALICE, "add_order_note", world.key(), order_id=args["order_id"], note="moved")
    with pytest.raises(PlacetError) as caught:
        await world.run(ALICE, REFUND, world.key(), signed, **args)
    assert caught.value.code is ErrorCode.CONFLICT
    order = f"order/{args['order_id']}"
    moved = {"signed": f"{order}@1", "now": f"{order}@2"}
    assert caught.value.details == {"diff": {"resource": moved}}
    assert await refunded(world, args["order_id"]) == 0


@pytest.mark.spec("A9")
async def test_refund_verify_reads_back_what_is_there(world: PackWorld) -> None:
    args = {"order_id": await world.order("299.00"), "amount": 30, "reason": REASON}
    key = world.key()
    await world.run(ALICE, REFUND, key, **args)
    found = await world.lookup(ALICE, REFUND, key, **args)
    assert found is not None
    assert await world.verify(ALICE, REFUND, key, found, **args)
    await world.sql("UPDATE business.refunds SET amount = 31 WHERE idempotency_key = :key", key=key)
    assert not await world.verify(ALICE, REFUND, key, found, **args)
    assert not await world.verify(ALICE, REFUND, "never-used", found, **args)


@pytest.mark.spec("A9")
async def test_refund_verify_holds_when_the_requester_no_longer_serves(world: PackWorld) -> None:
    args = {"order_id": await world.order("299.00"), "amount": 30, "reason": REASON}
    key = world.key()
    await world.run(ALICE, REFUND, key, **args)
    found = await world.lookup(ALICE, REFUND, key, **args)
    assert found is not None
    assert await world.verify(MIKE, REFUND, key, found, **args)


@pytest.mark.spec("G8")
async def test_refund_without_a_key_is_an_error_of_the_program(world: PackWorld) -> None:
    args = {"order_id": await world.order(), "amount": 1, "reason": REASON}
    assert await outcome(world.run(ALICE, REFUND, None, **args)) == "internal"
    assert await refunded(world, args["order_id"]) == 0


@pytest.mark.spec("A9", "G7")
async def test_refund_without_a_provider_cannot_be_cancelled(world: PackWorld) -> None:
    key, order_id = world.key(), await world.order("299.00")
    result = await world.run(ALICE, REFUND, key, order_id=order_id, amount=10, reason=REASON)
    with pytest.raises(PlacetError) as caught:
        await world.validate(ALICE, "cancel_refund", order_id=order_id, refund_id=result["refund_id"], reason="x")
    assert (caught.value.code, caught.value.details["rule"]) == (ErrorCode.INVALID_ARGUMENTS, "no_provider")
    assert await refunded(world, order_id) == 10
