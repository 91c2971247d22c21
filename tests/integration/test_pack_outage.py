"""The database goes away and comes back: every tool says so in one code, and nothing needs a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pack_world import ALICE, CAROL, PackWorld, pack_world

from placet.contracts.errors import ErrorCode, PlacetError

CALLS: list[tuple[Any, str, dict[str, Any]]] = [
    (ALICE, "query_business_data", {"entity": "orders"}),
    (ALICE, "refund_payment", {"order_id": "A1001", "amount": 1, "reason": "r"}),
    (ALICE, "cancel_order", {"order_id": "A1001", "reason": "r"}),
    (ALICE, "change_order", {"order_id": "A1010", "item": "i"}),
    (ALICE, "add_order_note", {"order_id": "A1001", "note": "n"}),
    (ALICE, "create_ticket", {"title": "t", "team": "support", "description": "d"}),
    (ALICE, "request_approval", {"subject": "s", "details": "d"}),
    (ALICE, "send_message", {"customer_id": "C1001", "text": "t"}),
    (ALICE, "run_readonly_sql", {"sql": "SELECT order_id FROM orders"}),
    (ALICE, "search_knowledge", {"query": "travel"}),
    (CAROL, "read_document_version", {"document_id": "doc-travel-v2"}),
]


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world() as opened:
        yield opened


@pytest.mark.spec("T4", "W9")
async def test_outage_every_tool_is_unavailable_then_works_again_without_a_double_effect(world: PackWorld) -> None:
    args = {"order_id": "A1001", "amount": 10, "reason": "r"}
    first = await world.run(ALICE, "refund_payment", "before", **args)
    await world.rig.kill9()
    for who, tool, arguments in CALLS:
        with pytest.raises(PlacetError) as caught:
            await world.run(who, tool, f"during-{tool}", **arguments)
        assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE, tool
    assert [await pack.ready() for pack in world.packs] == [False, False]

    await world.rig.server.start()
    assert [await pack.ready() for pack in world.packs] == [True, True]
    assert await world.run(ALICE, "refund_payment", "before", **args) == first
    assert await world.lookup(ALICE, "refund_payment", "during-refund_payment", **args) is None
    rows = await world.sql("SELECT count(*) FROM business.refunds")
    assert rows[0][0] == 1
