"""Whole processes whose clocks are two minutes wrong, each in its own direction: nothing changes (A7).

Any two that talk are up to four minutes apart. Waits are bounded: what hangs here would hang in a data centre, too.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from placet.client import ConflictError
from placet.client.proposals import acknowledge
from tests.chaos.campaign import AMOUNT, Campaign, add_orders, refunds
from tests.chaos.house import House, open_house
from tests.chaos.journey import Journey
from tests.chaos.points import Point, Side
from tests.chaos.spawner import CLOCK_OFF_S
from tests.chaos.stores import SOON_S
from tests.chaos.verdict import Records

pytestmark = pytest.mark.chaos

_OFF_S = 120
_PATIENCE_S = 150
# Killed once each while the clocks are wrong: what is started again is as wrong as before.
_POINTS = [
    Point("gateway", Side.BEFORE, "gateway", "command decide"),
    Point("agent", Side.AFTER, "agent", "event run-started"),
    Point("tool-executor", Side.AFTER, "tool-executor", "event claimed"),
    Point("approval", Side.AFTER, "approval", "event approved"),
]
_AHEAD_OR_BEHIND = {"approval": 1, "tool-executor": -1, "gateway": 1, "agent": -1}


@pytest.mark.timeout(600)
@pytest.mark.spec("A7", "A8", "G8", "I2", "U2")
@pytest.mark.parametrize("sign", [1, -1], ids=["approval-ahead", "approval-behind"])
async def test_services_whose_clocks_are_two_minutes_off_approve_execute_heal_and_expire_as_ever(sign: int) -> None:
    clocks = {service: {CLOCK_OFF_S: str(sign * way * _OFF_S)} for service, way in _AHEAD_OR_BEHIND.items()}
    async with open_house(clocks) as house:
        async with asyncio.timeout(_PATIENCE_S):
            await _refund_is_paid(house)
        async with asyncio.timeout(_PATIENCE_S):
            await _expires_by_the_clock_of_the_bus(house)
        campaign = Campaign(house)
        async with asyncio.timeout(2 * _PATIENCE_S):
            await campaign.run(refunds(_POINTS))
        assert (campaign.problems, campaign.given_up, campaign.missed) == ([], [], [])


async def _refund_is_paid(house: House) -> None:
    journey = Journey((await add_orders(house, 1))[0], AMOUNT)
    await journey.ask(house)
    async with house.client("dave") as dave:
        shown = await dave.proposals.get(journey.proposal_id)
    left = shown.expires_at - datetime.now(UTC)
    assert timedelta(seconds=900 - 60) < left <= timedelta(seconds=900 + 1), "an expiry by the wrong clock"
    await journey.approve(house)
    await journey.wait(house)
    assert journey.end is not None
    assert journey.end.data["finish_reason"] == "success"


async def _expires_by_the_clock_of_the_bus(house: House) -> None:
    order = (await add_orders(house, 1))[0]
    journey = Journey(order, "0", question="Please cancel order {order_id}, the customer changed their mind.")
    await journey.ask(house)
    async with house.client("dave") as dave:
        shown = await dave.proposals.get(journey.proposal_id)
        assert timedelta() < shown.expires_at - shown.created_at <= timedelta(seconds=SOON_S + 1)
        await journey.wait(house)
        ended = datetime.now(UTC)  # the clock of the bus, which nobody has changed
        with pytest.raises(ConflictError) as late:
            await dave.proposals.decide(
                journey.proposal_id, "approve", digest=shown.digest, acknowledgements=acknowledge(shown)
            )
    assert late.value.code == "expired"
    assert timedelta(seconds=-1) < ended - shown.expires_at < timedelta(seconds=60)
    stored = [event.name for event in (await Records.of(house)).proposals[journey.proposal_id]]
    assert stored[-2:] == ["expired", "completed"]
