"""Whatever dies between two steps of a refund: it is paid once, its record is whole, and nobody has to lend a hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from placet.client import ConflictError
from placet.client.proposals import acknowledge
from placet.messaging.kv import KeyValue
from placet.testkit.waiting import until
from tests.chaos import catalogue
from tests.chaos.campaign import AMOUNT, Campaign, Course, add_orders, courses, names, refunds
from tests.chaos.detours import RegradedJourney, UndoneJourney
from tests.chaos.house import TENANT, House, open_house
from tests.chaos.journey import Ending, Journey
from tests.chaos.stores import SOON_S
from tests.chaos.verdict import Records, key_of, violations

pytestmark = pytest.mark.chaos

_AT_LEAST = 60
_LEFT = Decimal(15)  # what the day still holds: one refund of 11, not two
_SERVICES = ("gateway", "agent", "tool-executor", "approval")


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


def test_catalogue_names_enough_distinct_points_for_everything_that_can_die() -> None:
    listed = catalogue.points()
    assert len({point.name for point in listed}) == len(listed) >= _AT_LEAST
    assert {point.victim for point in listed} == {*_SERVICES, "nats", "postgres"}


@pytest.mark.timeout(900)
@pytest.mark.spec("A2", "A8", "A10", "G8", "W9", "U2", "U5", "L1")
async def test_refund_whose_parts_are_killed_between_any_two_steps_is_paid_once_and_told_to_its_end(
    house: House,
) -> None:
    await _hit_all(house, refunds(catalogue.points()))


@pytest.mark.timeout(600)
@pytest.mark.spec("A9", "G13", "G8", "L1")
async def test_payment_that_reads_back_wrong_whose_parts_are_killed_is_offered_to_be_undone_once_and_undone_once(
    house: House,
) -> None:
    await _hit_all(house, courses(catalogue.UNDONE, UndoneJourney))


@pytest.mark.timeout(600)
@pytest.mark.spec("A4", "A8", "I1", "L1")
async def test_proposal_whose_requester_loses_the_right_is_ended_though_its_parts_are_killed_meanwhile(
    house: House,
) -> None:
    await _hit_all(house, courses(catalogue.REGRADED, RegradedJourney))


async def _hit_all(house: House, chosen: list[Course]) -> None:
    campaign = Campaign(house)
    await campaign.run(chosen)
    assert campaign.problems == []
    assert len(campaign.given_up) <= len(chosen) // 20, campaign.given_up
    assert campaign.missed == [], "points that no run came to"
    assert names(campaign.hit) == names(point for point, _ in chosen)


@pytest.mark.timeout(300)
@pytest.mark.spec("A7")
async def test_timer_that_falls_due_while_approval_and_the_bus_are_dead_fires_when_they_are_back(house: House) -> None:
    order_id = (await add_orders(house, 1))[0]
    journey = Journey(order_id, "0", question="Please cancel order {order_id}, the customer changed their mind.")
    await journey.ask(house)
    async with house.client("dave") as dave:
        shown = await dave.proposals.get(journey.proposal_id)
        assert timedelta() < shown.expires_at - shown.created_at <= timedelta(seconds=SOON_S + 1)
        house.hold("approval")
        house.kill("nats")
        while datetime.now(UTC) <= shown.expires_at:
            await asyncio.sleep(0.1)
        house.let_go("approval")
        await journey.wait(house)
        with pytest.raises(ConflictError) as late:
            await dave.proposals.decide(
                journey.proposal_id, "approve", digest=shown.digest, acknowledgements=acknowledge(shown)
            )
    assert late.value.code == "expired"
    stored = [event.name for event in (await Records.of(house)).proposals[journey.proposal_id]]
    assert [name for name in stored if name != "viewed"] == ["proposed", "waiting-for-human", "expired", "completed"]
    assert await _state_of(house, order_id) == "delivered"


@pytest.mark.timeout(300)
@pytest.mark.spec("G11", "G7", "A8")
async def test_two_approved_refunds_that_together_exceed_the_day_of_their_tenant_leave_one(house: House) -> None:
    """The last test of this house: its tenant has next to nothing left to spend today."""
    table = json.loads((house.stores.policies / "tables" / "limits" / "data.json").read_text(encoding="utf-8"))
    spent = Decimal(table["tenant"]["spend_per_day"]) - _LEFT
    journeys = [Journey(order, AMOUNT) for order in await add_orders(house, 2)]
    for journey in journeys:
        await journey.ask(house)
    bus = await house.stores.bus("tool-executor")
    try:
        counters, today = KeyValue(bus, "COUNTERS"), f"{TENANT}.spending.{datetime.now(UTC).date().isoformat()}"
        await counters.put(today, json.dumps({"spent": str(spent), "open": {}}).encode())
        await asyncio.gather(*(journey.approve(house) for journey in journeys))
        await asyncio.gather(*(journey.wait(house) for journey in journeys))

        async def settled() -> bool:
            entry = await counters.get(today)
            day = json.loads(entry.value) if entry else {}
            return day["open"] == {} and Decimal(day["spent"]) == spent + Decimal(AMOUNT)

        await until(settled, what="the day with one refund more, and nothing reserved")
    finally:
        await bus.close()
    records = await Records.of(house)
    paid, refused = sorted(journeys, key=lambda journey: journey.order_id not in records.refunds)
    assert violations(paid, records, house) == []
    refused.ending = Ending(
        run="refused", effect=("failed",), books=(), payments=0, audited=frozenset({"effect-finished"})
    )
    assert violations(refused, records, house) == []
    [failed] = records.effects[str(key_of(records.proposals[refused.proposal_id]))]
    assert failed.envelope.data["code"] == "limit_reached"
    completed = records.proposals[refused.proposal_id][-1].envelope.data
    assert (completed["finish_reason"], completed["outcome"]["code"]) == ("denied", "limit_reached")


async def _state_of(house: House, order_id: str) -> str:
    database = house.stores.database()
    try:
        async with database.engine.connect() as connection:
            found = await connection.execute(
                text("SELECT state FROM business.orders WHERE tenant = 'acme' AND order_id = :id"), {"id": order_id}
            )
            return str(found.scalar_one())
    finally:
        await database.close()
