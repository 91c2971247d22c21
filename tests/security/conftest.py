"""One house for the attacks on whole runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.foundations import foundations
from tests.security.run_house import RunHouse


@pytest.fixture(scope="session")
async def run_house() -> AsyncIterator[RunHouse]:
    """Tests share it: each has runs of its own, and starts the agent with the model it needs."""
    async with foundations() as (nats, postgres, directory):
        house = RunHouse(nats, postgres, directory)
        await house.start()
        yield house
        await house.stop()
