"""Nobody knows whether money has moved, and then somebody dies over it: it is asked for once and settled once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from tests.chaos.campaign import AMOUNT, Campaign, Course, names
from tests.chaos.catalogue import points
from tests.chaos.detours import UnknownJourney
from tests.chaos.house import House, open_house

pytestmark = pytest.mark.chaos

# Sooner than in production: after four attempts nobody knows, and the tool is asked again every two seconds.
_SOONER = {"PLACET_TOOL_EXECUTOR_EFFECT_ATTEMPTS": "4", "PLACET_TOOL_EXECUTOR_LOOKUP_INTERVAL_S": "2"}

_FOUND = """
tool-executor | before after | tool-executor: event unknown; event executed
tool-executor | before | tool-executor: event verified
tool-executor | on | tool-executor: arrival of event unknown for tool-executor__unknown
tool-executor | before | tool-executor: UPDATE refunds
tool-executor | before | tool-executor: record effect-finished #2
approval | on | approval: arrival of event unknown for approval__effect-finished
approval | before | approval: event completed
nats | before after | tool-executor: event unknown
nats | after | tool-executor: event executed
postgres | after | tool-executor: UPDATE refunds
"""
_SAID_PAID = """
gateway | before after | gateway: command settle-effect
tool-executor | on | tool-executor: arrival of command settle-effect
tool-executor | before after | tool-executor: event executed
nats | after | tool-executor: event executed
"""
_SAID_UNPAID = """
tool-executor | after | tool-executor: UPDATE refunds; event failed
tool-executor | before | tool-executor: answer to command settle-effect
nats | before | tool-executor: event failed
"""
_NOT_FOUND = """
tool-executor | before | tool-executor: event failed
postgres | before | tool-executor: UPDATE refunds
nats | after | tool-executor: event failed
"""


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house({"tool-executor": _SOONER}) as opened:
        yield opened


def _courses() -> list[Course]:
    """What is not found last: a process that starts anew waits once more before it believes that."""
    kinds: list[tuple[str, Callable[[str], UnknownJourney]]] = [
        (_FOUND, partial(UnknownJourney, amount=AMOUNT)),
        (_SAID_PAID, partial(UnknownJourney, amount=AMOUNT, said="executed")),
        (_SAID_UNPAID, partial(UnknownJourney, amount=AMOUNT, paid=False, said="not_executed")),
        (_NOT_FOUND, partial(UnknownJourney, amount=AMOUNT, paid=False)),
    ]
    return [(point, journey) for lines, journey in kinds for point in points(lines)]


@pytest.mark.timeout(900)
@pytest.mark.spec("G8", "G12", "W9", "A8", "L1")
async def test_effect_of_unknown_outcome_whose_settling_is_killed_is_asked_for_once_and_settled_once(
    house: House,
) -> None:
    courses = _courses()
    campaign = Campaign(house)
    await campaign.run(courses, lanes=4)
    assert campaign.problems == []
    assert (campaign.given_up, campaign.missed) == ([], [])
    assert names(campaign.hit) == names(point for point, _ in courses)
