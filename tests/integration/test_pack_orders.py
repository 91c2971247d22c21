"""`cancel_order`, `change_order`, `add_order_note` against a real database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pack_world import ALICE, GLOBEX_ALICE, MIKE, PackWorld, outcome, pack_world

from placet.contracts.errors import ErrorCode, PlacetError
from placet.toolkit import RollbackPlan, ToolResult

WRITES: dict[str, dict[str, Any]] = {
    "cancel_order": {"reason": "no longer wanted"},
    "change_order": {"item": "Another lamp"},
    "add_order_note": {"note": "customer called"},
}


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world() as opened:
        yield opened


async def stored(world: PackWorld, order_id: str) -> tuple[Any, ...]:
    rows = await world.sql(
        "SELECT state, item, shipping_address, version FROM business.orders WHERE order_id = :id AND tenant = 'acme'",
        id=order_id,
    )
    return tuple(rows[0])


@pytest.mark.spec("I3", "I4")
@pytest.mark.parametrize("tool", WRITES)
@pytest.mark.parametrize(
    ("who", "order_id"),
    [(ALICE, "A3001"), (ALICE, "A9999"), (MIKE, "A1010"), (GLOBEX_ALICE, "A1010")],
)
async def test_order_write_not_served_is_not_found(world: PackWorld, tool: str, who: Any, order_id: str) -> None:
    args = {"order_id": order_id, **WRITES[tool]}
    assert await outcome(world.resource(who, tool, **args)) == "not_found"
    assert await outcome(world.run(who, tool, world.key(), **args)) == "not_found"


@pytest.mark.spec("G8", "W9")
@pytest.mark.parametrize("tool", WRITES)
async def test_order_write_one_key_from_five_callers_takes_effect_once(world: PackWorld, tool: str) -> None:
    args, key = {"order_id": await world.order(state="paid"), **WRITES[tool]}, world.key()
    results = await asyncio.gather(*(world.run(ALICE, tool, key, "1", **args) for _ in range(5)))
    assert all(result == results[0] for result in results)
    assert (await stored(world, args["order_id"]))[3] == 2
    found = await world.lookup(ALICE, tool, key, **args)
    assert found is not None
    assert found.data == results[0]
    assert await world.verify(ALICE, tool, key, found, **args)
    assert not await world.verify(ALICE, tool, "never-used", found, **args)


@pytest.mark.spec("A8")
@pytest.mark.parametrize("tool", WRITES)
async def test_order_write_of_two_on_one_version_only_one_wins(world: PackWorld, tool: str) -> None:
    args = {"order_id": await world.order(state="paid"), **WRITES[tool]}
    ends = Counter(await asyncio.gather(*(outcome(world.run(ALICE, tool, world.key(), "1", **args)) for _ in range(4))))
    assert ends == {"ok": 1, "conflict": 3}


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("state", "expected"),
    [("placed", "ok"), ("paid", "ok"), ("shipped", "ok"), ("delivered", "ok"), ("cancelled", "invalid_arguments")],
)
async def test_cancel_by_state_refused_only_when_cancelled(world: PackWorld, state: str, expected: str) -> None:
    args = {"order_id": await world.order(state=state), "reason": "no longer wanted"}
    assert await outcome(world.validate(ALICE, "cancel_order", **args)) == expected
    assert await outcome(world.run(ALICE, "cancel_order", world.key(), **args)) == expected
    assert (await stored(world, args["order_id"]))[0] == "cancelled"


@pytest.mark.spec("A1")
@pytest.mark.parametrize(("state", "word"), [("shipped", "carrier"), ("delivered", "return")])
async def test_cancel_preview_names_what_has_to_come_back(world: PackWorld, state: str, word: str) -> None:
    args = {"order_id": await world.order(state=state), "reason": "no longer wanted"}
    preview = await world.preview(ALICE, "cancel_order", **args)
    assert [(change.field, change.before, change.after) for change in preview.changes] == [
        ("state", state, "cancelled")
    ]
    assert any(word in line for line in preview.blast_radius)
    assert any("299.00 CNY stay" in line for line in preview.blast_radius)
    assert preview.rollback is None


@pytest.mark.spec("G7")
@pytest.mark.parametrize("state", ["shipped", "delivered", "cancelled"])
async def test_change_after_shipping_is_refused_and_changes_nothing(world: PackWorld, state: str) -> None:
    args = {"order_id": await world.order(state=state), "item": "Another lamp"}
    assert await outcome(world.validate(ALICE, "change_order", **args)) == "invalid_arguments"
    assert await outcome(world.run(ALICE, "change_order", world.key(), **args)) == "invalid_arguments"
    assert await stored(world, args["order_id"]) == (state, "Lamp", "Shanghai", 1)


async def test_change_to_what_it_is_already_is_refused(world: PackWorld) -> None:
    args = {"order_id": await world.order(state="paid"), "item": "Lamp", "address": "Shanghai"}
    assert await outcome(world.validate(ALICE, "change_order", **args)) == "invalid_arguments"


@pytest.mark.spec("A9")
async def test_change_rollback_plan_carried_out_restores_the_order(world: PackWorld) -> None:
    order_id, key = await world.order(state="paid"), world.key()
    args = {"order_id": order_id, "item": "Desk", "address": "北京市建国路 5 号"}
    plan = (await world.preview(ALICE, "change_order", **args)).rollback
    assert plan == RollbackPlan("change_order", {"order_id": order_id, "item": "Lamp", "address": "Shanghai"})
    result = await world.run(ALICE, "change_order", key, **args)
    assert await stored(world, order_id) == ("paid", "Desk", "北京市建国路 5 号", 2)
    spec = world.tools["change_order"]
    assert spec.hooks.compensate is not None
    context, model = world.context(ALICE, key), spec.args.model_validate(args)
    assert await spec.hooks.compensate(context, model, ToolResult(result)) == plan
    await world.run(ALICE, plan.tool, world.key(), **plan.arguments)
    assert await stored(world, order_id) == ("paid", "Lamp", "Shanghai", 3)


@pytest.mark.spec("A9")
async def test_change_rollback_of_an_empty_field_is_no_plan(world: PackWorld) -> None:
    order_id = await world.order(state="paid")
    await world.sql("UPDATE business.orders SET shipping_address = '' WHERE order_id = :id", id=order_id)
    assert (await world.preview(ALICE, "change_order", order_id=order_id, address="Beijing")).rollback is None


@pytest.mark.spec("A9")
async def test_change_verify_sees_an_order_that_is_not_what_was_written(world: PackWorld) -> None:
    args, key = {"order_id": await world.order(state="paid"), "item": "Desk"}, world.key()
    result = ToolResult(await world.run(ALICE, "change_order", key, **args))
    assert await world.verify(ALICE, "change_order", key, result, **args)
    await world.sql("UPDATE business.orders SET item = 'Chair' WHERE order_id = :id", id=args["order_id"])
    assert not await world.verify(ALICE, "change_order", key, result, **args)


@pytest.mark.spec("A9")
async def test_change_verify_holds_after_a_later_change(world: PackWorld) -> None:
    order_id, key = await world.order(state="paid"), world.key()
    args = {"order_id": order_id, "item": "Desk"}
    result = ToolResult(await world.run(ALICE, "change_order", key, **args))
    await world.run(ALICE, "change_order", world.key(), order_id=order_id, item="Chair")
    assert await world.verify(ALICE, "change_order", key, result, **args)


@pytest.mark.spec("L1")
async def test_cancel_reason_and_person_are_kept(world: PackWorld) -> None:
    order_id = await world.order()
    await world.run(ALICE, "cancel_order", world.key(), order_id=order_id, reason="ordered twice")
    rows = await world.sql(
        "SELECT kind, reason, before, after, created_by FROM business.order_changes WHERE order_id = :id", id=order_id
    )
    expected = ("cancel", "ordered twice", {"state": "delivered"}, {"state": "cancelled"}, "alice")
    assert [tuple(row) for row in rows] == [expected]


async def test_note_is_stored_with_its_writer_as_text(world: PackWorld) -> None:
    order_id, note = await world.order(), "'); DROP TABLE business.orders; -- 备注"
    result = await world.run(ALICE, "add_order_note", world.key(), order_id=order_id, note=note)
    rows = await world.sql(
        "SELECT note_id, body, created_by FROM business.order_notes WHERE order_id = :id", id=order_id
    )
    assert [tuple(row) for row in rows] == [(result["note_id"], note, "alice")]


@pytest.mark.spec("T4")
@pytest.mark.parametrize("tool", WRITES)
async def test_order_write_locked_row_ends_as_timeout_not_as_a_hang(world: PackWorld, tool: str) -> None:
    args = {"order_id": await world.order(state="paid"), **WRITES[tool]}
    async with world.rig.database("placet_owner").engine.begin() as blocker:
        from sqlalchemy import text

        await blocker.execute(
            text("SELECT 1 FROM business.orders WHERE order_id = :id FOR UPDATE"), {"id": args["order_id"]}
        )
        with pytest.raises(PlacetError) as caught:
            await asyncio.wait_for(world.run(ALICE, tool, world.key(), **args), 9)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert (await stored(world, args["order_id"]))[3] == 1
