"""SIGKILL of the agent around every node between a question and its refund, with nothing faked behind it.

Real executor, approval service, policy, ledger and orders, and a gateway in front. Other workers finish each run; the
money moves once; and who follows the run over HTTP sees every event once, in order.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from placet.messaging.reading import EventReader
from tests.integration.approval_steps import names
from tests.integration.nursery import Nursery, environment, moments
from tests.integration.whole_house import COMPLETED, WholeHouse

pytestmark = pytest.mark.chaos

ASKED = moments("plan", "execute")
RESUMED = moments("await_decision", "settle", "plan", "compose", "finish")
AMOUNT = 5


@pytest.fixture
async def nursery(whole_house: WholeHouse, root: Path) -> AsyncIterator[Nursery]:
    """The house without its agent, which comes back afterwards."""
    log = whole_house.governance.keys.directory.parent / "dying.log"
    nursery = Nursery(environment(whole_house.agent_settings()), log, root)
    await whole_house.stop_agent()
    yield nursery
    nursery.close()
    if whole_house.agent is None:
        await whole_house.start_agent()


async def followed(house: WholeHouse, run_id: str) -> list[dict[str, Any]]:
    """Everything that one connection shows of a run, from its beginning to its end."""
    async with house.as_("alice").stream("GET", f"/api/runs/{run_id}/events", timeout=None) as response:
        lines = [line async for line in response.aiter_lines()]
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


async def refunded(house: WholeHouse, orders: list[str]) -> dict[str, list[Decimal]]:
    """What the books say, by order."""
    query = text("SELECT order_id, amount FROM business.refunds WHERE tenant = 'acme' AND order_id = ANY(:orders)")
    found: dict[str, list[Decimal]] = {}
    async with house.governance.postgres.database().engine.connect() as connection:
        for order_id, amount in await connection.execute(query, {"orders": orders}):
            found.setdefault(order_id, []).append(amount)
    return found


async def ledger(house: WholeHouse, proposals: list[str]) -> dict[str, Counter[str]]:
    """The events of the effects of these proposals, counted by name."""
    found = {proposal: Counter[str]() for proposal in proposals}
    reader = EventReader(house.governance.executor.bus, "EFFECTS")
    for event in await reader.page("placet.acme.tool-executor.evt.*.v1.*", after=0, limit=10_000):
        proposal = event.envelope.data.get("proposal_id")
        if proposal in found:
            found[proposal][event.name] += 1
    return found


@pytest.mark.spec("U2", "U5", "W9", "A8", "A10", "G8", "B10")
@pytest.mark.timeout(600)
async def test_refunds_whose_workers_are_killed_around_every_node_are_paid_once_and_followed_without_a_gap(
    whole_house: WholeHouse, nursery: Nursery
) -> None:
    house = whole_house
    orders = await house.new_orders(len(RESUMED))
    runs: list[str] = []
    following: list[asyncio.Task[list[dict[str, Any]]]] = []

    async def ask() -> None:
        question = f"Please refund order {orders[len(runs)]}, {AMOUNT}, it arrived broken."
        runs.append(await house.ask("alice", question))
        following.append(asyncio.create_task(followed(house, runs[-1])))

    for node, when in ASKED:
        await ask()
        await nursery.killed(node, when)
    await house.start_agent()
    while len(runs) < len(orders):
        await ask()
    proposals = []
    for run_id in runs:
        card = (await house.came_to("alice", run_id, "waiting_for_human"))["approval"]
        proposals.append(card["proposal_id"])
    await house.stop_agent()
    for proposal_id, (node, when) in zip(proposals, RESUMED, strict=True):
        await house.governance.approve("dave", proposal_id)
        await nursery.killed(node, when)
    await house.start_agent()

    for run_id, order in zip(runs, orders, strict=True):
        done = await house.came_to("alice", run_id, "completed")
        assert done["finish_reason"] == "success"
        assert done["answer"].startswith(f"Done: {AMOUNT} CNY was refunded for order {order}, refund R-")
    assert await refunded(house, orders) == {order: [Decimal(AMOUNT)] for order in orders}
    once = Counter({"claimed": 1, "executed": 1, "verified": 1})
    assert await ledger(house, proposals) == dict.fromkeys(proposals, once)
    assert len(set(proposals)) == len(runs)
    for proposal_id in proposals:
        history = [name for name in await names(house.governance, proposal_id) if name != "viewed"]
        assert history == ["proposed", "waiting-for-human", "approved", "completed"]
    for shown in await asyncio.gather(*following):
        types = [event["type"] for event in shown]
        assert [event["seq"] for event in shown] == list(range(1, len(shown) + 1))
        assert (types[0], types[-1]) == ("run.started", COMPLETED)
        assert max(count for name, count in Counter(types).items() if name != "message.delta") == 1
