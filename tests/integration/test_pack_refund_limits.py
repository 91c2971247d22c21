"""`refund_payment` against a real database: limits of one refund, of a day, and of a person."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from pack_world import ALICE, PackWorld, actor, outcome, pack_world

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


@pytest.mark.spec("G7")
async def test_refund_per_refund_limit_is_reached_above_it_only(world: PackWorld) -> None:
    order_id = await world.order("9000.00")
    assert await outcome(world.validate(ALICE, REFUND, order_id=order_id, amount=5000, reason=REASON)) == "ok"
    args = {"order_id": order_id, "amount": 5000.01, "reason": REASON}
    with pytest.raises(PlacetError) as caught:
        await world.validate(ALICE, REFUND, **args)
    assert (caught.value.code, caught.value.details["rule"]) == (ErrorCode.LIMIT_REACHED, "per_refund")
    assert await outcome(world.run(ALICE, REFUND, world.key(), **args)) == "limit_reached"


@pytest.mark.spec("G7")
async def test_refund_daily_limit_holds_under_a_race_and_ends_with_the_day(world: PackWorld) -> None:
    orders = [await world.order("3000.00") for _ in range(6)]
    calls = [
        outcome(world.run(ALICE, REFUND, world.key(), order_id=order_id, amount=3000, reason=REASON))
        for order_id in orders
    ]
    assert Counter(await asyncio.gather(*calls)) == {"ok": 3, "limit_reached": 3}  # 10,000 a day
    day = "SELECT amount FROM business.refund_totals WHERE actor = 'alice' AND day = :day"
    assert (await world.sql(day, day=world.now.date()))[0][0] == 9000
    rest = {"order_id": await world.order("2000.00"), "amount": 1000.01, "reason": REASON}
    assert await outcome(world.validate(ALICE, REFUND, **rest)) == "limit_reached"
    assert await outcome(world.run(ALICE, REFUND, world.key(), **(rest | {"amount": 1000}))) == "ok"
    world.next_day()
    assert await outcome(world.run(ALICE, REFUND, world.key(), **(rest | {"amount": 1000}))) == "ok"


@pytest.mark.spec("G7")
async def test_refund_own_limit_counts_before_everybodys(world: PackWorld) -> None:
    await world.sql("INSERT INTO business.refund_limits VALUES ('acme', 'trainee', 'CNY', 50, 60)")
    trainee = actor("trainee", "customer_support")
    order_id = await world.order("299.00")
    refund = {"order_id": order_id, "reason": REASON}
    assert await outcome(world.run(trainee, REFUND, world.key(), **refund, amount=50.01)) == "limit_reached"
    assert await outcome(world.run(trainee, REFUND, world.key(), **refund, amount=50)) == "ok"
    assert await outcome(world.run(trainee, REFUND, world.key(), **refund, amount=10.01)) == "limit_reached"
    assert await outcome(world.run(ALICE, REFUND, world.key(), **refund, amount=10.01)) == "ok"


@pytest.mark.spec("G7")
async def test_refund_without_any_limit_set_pays_nothing(world: PackWorld) -> None:
    order_id = await world.order("299.00")
    await world.sql("UPDATE business.orders SET currency = 'EUR' WHERE order_id = :id", id=order_id)
    args = {"order_id": order_id, "amount": 1, "reason": REASON}
    assert await outcome(world.validate(ALICE, REFUND, **args)) == "limit_reached"
    assert await outcome(world.run(ALICE, REFUND, world.key(), **args)) == "limit_reached"
