"""Nobody knows whether money has moved, and then somebody dies over it: it is asked for once and settled once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.chaos import catalogue
from tests.chaos.campaign import Campaign, Course, courses, names
from tests.chaos.detours import UnknownJourney
from tests.chaos.house import House, open_house

pytestmark = pytest.mark.chaos

# Sooner than in production: after four attempts nobody knows, and the tool is asked again every two seconds.
_SOONER = {"PLACET_TOOL_EXECUTOR_EFFECT_ATTEMPTS": "4", "PLACET_TOOL_EXECUTOR_LOOKUP_INTERVAL_S": "2"}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house({"tool-executor": _SOONER}) as opened:
        yield opened


def _courses() -> list[Course]:
    """What is not found last: a process that starts anew waits once more before it believes that."""
    return [
        *courses(catalogue.FOUND, UnknownJourney),
        *courses(catalogue.SAID_PAID, UnknownJourney, said="executed"),
        *courses(catalogue.SAID_UNPAID, UnknownJourney, paid=False, said="not_executed"),
        *courses(catalogue.NOT_FOUND, UnknownJourney, paid=False),
    ]


@pytest.mark.timeout(900)
@pytest.mark.spec("G8", "G12", "W9", "A8", "L1")
async def test_effect_of_unknown_outcome_whose_settling_is_killed_is_asked_for_once_and_settled_once(
    house: House,
) -> None:
    chosen = _courses()
    campaign = Campaign(house)
    await campaign.run(chosen, lanes=4)
    assert campaign.problems == []
    assert (campaign.given_up, campaign.missed) == ([], [])
    assert names(campaign.hit) == names(point for point, _ in chosen)
