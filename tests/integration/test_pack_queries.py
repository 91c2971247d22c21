"""`query_business_data` against the demo world: what each person sees, pages, filters, cursors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from pack_world import ALICE, BOB, DAVE, GLOBEX_ALICE, GRACE, MIKE, PackWorld, actor, pack_world

from placet.contracts.errors import ErrorCode, PlacetError
from placet.toolkit import Actor

QUERY = "query_business_data"
ALICES_ORDERS = [f"A10{n:02d}" for n in range(1, 12)] + ["A2001"]
EVERYBODY = [ALICE, BOB, DAVE, GRACE, MIKE, GLOBEX_ALICE]
ID_OF = {
    "orders": "order_id",
    "refunds": "refund_id",
    "shipments": "shipment_id",
    "customers": "customer_id",
    "tickets": "ticket_id",
}


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world() as opened:
        for order_id in ("A1001", "A1001", "A1003", "A2001"):
            opened.now += timedelta(seconds=1)
            args = {"order_id": order_id, "amount": 5, "reason": "scratch"}
            await opened.run(ALICE, "refund_payment", opened.key(), **args)
        await opened.run(
            GLOBEX_ALICE, "refund_payment", opened.key(), order_id="A1001", amount=7, reason="another company's"
        )
        for number in range(5):
            args = {"title": f"t{number}", "team": "support", "description": "d"}
            await opened.run(ALICE, "create_ticket", opened.key(), **args)  # all at the same moment
        yield opened


async def ids(world: PackWorld, who: Actor, entity: str, **filters: Any) -> list[str]:
    found = await world.run(who, QUERY, entity=entity, limit=100, **filters)
    assert found["next"] is None
    return [item[ID_OF[entity]] for item in found["items"]]


@pytest.mark.spec("G7", "I4")
async def test_query_orders_shows_each_person_their_own_customers(world: PackWorld) -> None:
    assert await ids(world, ALICE, "orders") == ALICES_ORDERS
    assert await ids(world, GRACE, "orders") == ["A3001"]
    assert await ids(world, BOB, "orders") == []
    assert await ids(world, MIKE, "orders") == []
    assert await ids(world, DAVE, "orders") == [*ALICES_ORDERS, "A3001"]
    assert await ids(world, GLOBEX_ALICE, "orders") == ["A1001", "A2001", "A3001"]


@pytest.mark.spec("G7")
async def test_query_a_team_serves_without_being_named_in_person(world: PackWorld) -> None:
    colleague = actor("ingrid", "customer_support")
    # C1003 is served by alice alone.
    assert await ids(world, colleague, "customers") == ["C1001", "C1002", "C2001"]


@pytest.mark.spec("I4")
@pytest.mark.parametrize("entity", ["orders", "refunds", "shipments", "customers", "tickets"])
async def test_query_look_alike_tenant_never_shares_a_record(world: PackWorld, entity: str) -> None:
    ours = await world.run(ALICE, QUERY, entity=entity, limit=100)
    theirs = await world.run(GLOBEX_ALICE, QUERY, entity=entity, limit=100)
    assert not [item for item in ours["items"] if item in theirs["items"]]
    if entity == "orders":
        paid = {item["order_id"]: item["paid_amount"] for item in ours["items"]}
        assert paid["A1001"] == 299
        assert {item["order_id"]: item["paid_amount"] for item in theirs["items"]}["A1001"] == 777


async def test_query_an_order_tells_what_is_left_to_refund(world: PackWorld) -> None:
    found = await world.run(ALICE, QUERY, entity="orders", order_id="A1001")
    item = found["items"][0]
    assert (item["paid_amount"], item["refunded_amount"], item["refundable"]) == (299, 10, 289)
    assert item["version"] == 3
    assert item["created_at"] == "2026-11-02T03:15:00+00:00"


@pytest.mark.spec("G3")
async def test_query_personal_fields_keep_the_names_that_policy_masks(world: PackWorld) -> None:
    customer = (await world.run(ALICE, QUERY, entity="customers", customer_id="C1001"))["items"][0]
    assert customer.keys() == {"customer_id", "name", "email", "phone"}
    order = (await world.run(ALICE, QUERY, entity="orders", order_id="A1001"))["items"][0]
    assert order["address"] == "88 Century Avenue, Shanghai"
    assert not any("Century" in str(value) for name, value in order.items() if name != "address")


async def test_query_filters_by_order_and_customer(world: PackWorld) -> None:
    assert await ids(world, ALICE, "shipments", order_id="A1002") == ["S1002"]
    assert await ids(world, ALICE, "orders", customer_id="C1003") == ["A1005", "A1006", "A1009"]
    assert await ids(world, ALICE, "customers", order_id="A1005") == ["C1003"]
    assert len(await ids(world, ALICE, "refunds", order_id="A1001")) == 2
    assert len(await ids(world, ALICE, "refunds", customer_id="C2001")) == 1
    assert await ids(world, ALICE, "refunds", customer_id="C2001", order_id="A1001") == []


@pytest.mark.spec("I3", "T5")
@pytest.mark.parametrize("entity", ["orders", "refunds", "shipments", "customers"])
async def test_query_absent_and_unserved_look_the_same(world: PackWorld, entity: str) -> None:
    absent = await world.run(ALICE, QUERY, entity=entity, order_id="A9999")
    assert await world.run(ALICE, QUERY, entity=entity, order_id="A3001") == absent == {"items": [], "next": None}
    assert await world.run(ALICE, QUERY, entity=entity, customer_id="C3001") == absent


@pytest.mark.parametrize("entity", ["orders", "refunds", "shipments", "customers", "tickets"])
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_query_pages_joined_are_the_whole_list(world: PackWorld, entity: str, limit: int) -> None:
    joined: list[str] = []
    cursor: str | None = None
    while True:
        page = await world.run(ALICE, QUERY, entity=entity, limit=limit, cursor=cursor)
        assert len(page["items"]) <= limit
        joined += [item[ID_OF[entity]] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert joined == await ids(world, ALICE, entity)
    assert len(set(joined)) == len(joined) > 3


async def test_query_refunds_come_newest_first(world: PackWorld) -> None:
    times = [item["created_at"] for item in (await world.run(ALICE, QUERY, entity="refunds"))["items"]]
    assert times == sorted(times, reverse=True)


@pytest.mark.spec("I4")
async def test_query_somebody_elses_cursor_opens_nothing(world: PackWorld) -> None:
    cursor = (await world.run(DAVE, QUERY, entity="orders", limit=12))["next"]
    assert cursor is not None  # A3001 comes next for dave
    for who in EVERYBODY:
        seen = await world.run(who, QUERY, entity="orders", cursor=cursor)
        mine = await ids(world, who, "orders")
        assert [item["order_id"] for item in seen["items"]] == [order for order in mine if order > "A2001"]


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "%%%", "e30", "bnVsbA", "WyJvcmRlcnMiXQ", "WyJvcmRlcnMiLCAxXQ", "WyJvcmRlcnMiLCAiYSIsICJiIl0", "é"],
)
async def test_query_invented_cursor_is_an_invalid_argument(world: PackWorld, cursor: str) -> None:
    with pytest.raises(PlacetError) as caught:
        await world.run(ALICE, QUERY, entity="orders", cursor=cursor)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


async def test_query_cursor_of_another_list_is_an_invalid_argument(world: PackWorld) -> None:
    cursor = (await world.run(ALICE, QUERY, entity="shipments", limit=1))["next"]
    with pytest.raises(PlacetError, match="invalid_arguments"):
        await world.run(ALICE, QUERY, entity="orders", cursor=cursor)


@pytest.mark.spec("I4")
@pytest.mark.parametrize("text", ["A1001' OR '1'='1", "A1001'; DROP TABLE business.orders; --", "%", "A100_", "*"])
async def test_query_filter_text_is_a_value_and_nothing_else(world: PackWorld, text: str) -> None:
    assert await ids(world, ALICE, "orders", order_id=text) == []
    assert await ids(world, ALICE, "customers", customer_id=text) == []
    assert await ids(world, ALICE, "orders") == ALICES_ORDERS
