"""Whatever dies between two steps of a refund: it is paid once, its record is whole, and nobody has to lend a hand."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import Campaign, names
from tests.chaos.catalogue import points
from tests.chaos.house import open_house

_AT_LEAST = 60


def test_catalogue_names_enough_distinct_points_for_everything_that_can_die() -> None:
    listed = points()
    assert len({point.name for point in listed}) == len(listed) >= _AT_LEAST
    assert {point.victim for point in listed} == {"gateway", "agent", "tool-executor", "approval", "nats", "postgres"}


@pytest.mark.timeout(900)
@pytest.mark.spec("A2", "A8", "A10", "G8", "W9", "U2", "U5", "L1")
async def test_refund_whose_parts_are_killed_between_any_two_steps_is_paid_once_and_told_to_its_end() -> None:
    listed = points()
    async with open_house() as house:
        campaign = Campaign(house)
        await campaign.run(listed)
    assert campaign.problems == []
    assert len(campaign.given_up) <= len(listed) // 20, campaign.given_up
    assert campaign.missed == [], "points that no run came to"
    assert len(names(campaign.hit)) == len(listed)
