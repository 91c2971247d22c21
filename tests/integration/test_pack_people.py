"""`create_ticket`, `request_approval`, `send_message` against a real database: what other people get to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pack_world import ALICE, BOB, CAROL, DAVE, GLOBEX_ALICE, GRACE, MIKE, PackWorld, actor, pack_world

from placet.contracts.errors import PlacetError
from placet.toolkit import Actor, ToolResult

TICKET = {"title": "Lamp broken", "priority": "high", "team": "warehouse", "description": "Two of three were broken."}
REQUEST = {"subject": "Conference in Oslo", "details": "Three days, 12,000 CNY."}
MESSAGE = {"customer_id": "C1001", "text": "您好，退款已处理。\nThe refund is done."}
WRITES: dict[str, dict[str, Any]] = {"create_ticket": TICKET, "request_approval": REQUEST, "send_message": MESSAGE}


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world() as opened:
        yield opened


@pytest.mark.spec("G8", "W9")
@pytest.mark.parametrize("tool", WRITES)
async def test_write_one_key_from_five_callers_is_one_row_and_reads_back(world: PackWorld, tool: str) -> None:
    args, key = WRITES[tool], world.key()
    results = await asyncio.gather(*(world.run(ALICE, tool, key, **args) for _ in range(5)))
    assert all(result == results[0] for result in results)
    table = "messages" if tool == "send_message" else "tickets"
    rows = await world.sql(f"SELECT count(*) FROM business.{table} WHERE idempotency_key = :key", key=key)
    assert rows[0][0] == 1
    result = ToolResult(results[0])
    assert await world.lookup(ALICE, tool, key, **args) == result
    assert await world.verify(ALICE, tool, key, result, **args)
    assert not await world.verify(ALICE, tool, "never-used", result, **args)


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("tool", "tampering"),
    [
        ("create_ticket", "UPDATE business.tickets SET team = 'nobody' WHERE idempotency_key = :key"),
        ("request_approval", "UPDATE business.tickets SET title = 'Party' WHERE idempotency_key = :key"),
        ("send_message", "UPDATE business.messages SET body = 'Pay at once' WHERE idempotency_key = :key"),
    ],
)
async def test_write_verify_sees_what_is_not_as_asked(world: PackWorld, tool: str, tampering: str) -> None:
    args, key = WRITES[tool], world.key()
    result = ToolResult(await world.run(ALICE, tool, key, **args))
    await world.sql(tampering, key=key)
    assert not await world.verify(ALICE, tool, key, result, **args)


async def tickets_of(world: PackWorld, who: Actor) -> set[str]:
    found = await world.run(who, "query_business_data", entity="tickets", limit=100)
    return {item["ticket_id"] for item in found["items"]}


@pytest.mark.spec("I4")
async def test_ticket_is_seen_by_writer_team_and_finance_and_by_nobody_else(world: PackWorld) -> None:
    ticket = (await world.run(ALICE, "create_ticket", world.key(), **TICKET))["ticket_id"]
    colleague = actor("walter", team="warehouse")
    for who in (ALICE, colleague, DAVE):
        assert ticket in await tickets_of(world, who)
    namesake = actor("alice", tenant="globex", team="warehouse")
    for who in (BOB, GRACE, CAROL, MIKE, GLOBEX_ALICE, namesake, actor("walter", team="warehouse", active=False)):
        assert ticket not in await tickets_of(world, who)


async def test_request_is_put_before_the_approvals_team(world: PackWorld) -> None:
    request = await world.run(BOB, "request_approval", world.key(), **REQUEST)
    assert request["state"] == "open"
    rows = await world.sql(
        "SELECT team, title, description, created_by, state FROM business.tickets WHERE ticket_id = :id",
        id=request["request_id"],
    )
    assert [tuple(row) for row in rows] == [
        ("approvals", "Conference in Oslo", "Three days, 12,000 CNY.", "bob", "open")
    ]
    assert request["request_id"] in await tickets_of(world, actor("ann", team="approvals"))


@pytest.mark.spec("I3", "I4")
@pytest.mark.parametrize(
    ("who", "customer"),
    [(ALICE, "C3001"), (ALICE, "C9999"), (GRACE, "C1001"), (DAVE, "C1001"), (MIKE, "C1001"), (GLOBEX_ALICE, "C1002")],
)
async def test_message_to_a_customer_not_served_is_not_found(world: PackWorld, who: Any, customer: str) -> None:
    args = {"customer_id": customer, "text": "hello"}
    for call in (world.resource(who, "send_message", **args), world.run(who, "send_message", world.key(), **args)):
        with pytest.raises(PlacetError, match="not_found"):
            await call
    rows = await world.sql("SELECT count(*) FROM business.messages WHERE body = 'hello'")
    assert rows[0][0] == 0


@pytest.mark.spec("A8")
async def test_message_after_the_address_changed_is_a_conflict(world: PackWorld) -> None:
    args = {"customer_id": "C1003", "text": "your order"}
    view = await world.resource(ALICE, "send_message", **args)
    assert view.facts["served_by"] == ["alice"]
    await world.sql("UPDATE business.customers SET email = 'thief@example.net' WHERE customer_id = 'C1003'")
    assert (await world.resource(ALICE, "send_message", **args)).version != view.version
    with pytest.raises(PlacetError, match="conflict"):
        await world.run(ALICE, "send_message", world.key(), view.version, **args)


@pytest.mark.spec("A1")
async def test_previews_say_who_will_see_it(world: PackWorld) -> None:
    ticket = await world.preview(ALICE, "create_ticket", **TICKET)
    assert "warehouse" in ticket.blast_radius[0]
    request = await world.preview(BOB, "request_approval", **REQUEST)
    assert "approvals" in request.blast_radius[0]
    message = await world.preview(ALICE, "send_message", **MESSAGE)
    assert message.touched == ("C1001",)
    assert message.changes[0].after == MESSAGE["text"]
