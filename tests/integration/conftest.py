"""One bus, database, approval service and tool-executor for the governance tests of a session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.agent_rig import AgentRig
from tests.integration.foundations import foundations
from tests.integration.governance_rig import GovernanceRig


@pytest.fixture(scope="session")
async def governance() -> AsyncIterator[GovernanceRig]:
    """Tests share it: each uses orders and people of its own."""
    async with foundations() as (nats, postgres, directory):
        rig = GovernanceRig(nats, postgres, directory)
        await rig.start()
        yield rig
        await rig.stop()


@pytest.fixture(scope="session")
async def agent_house() -> AsyncIterator[AgentRig]:
    """The agent and memory services with fakes of the others. Tests share it: each has runs of its own."""
    async with foundations() as (nats, postgres, directory):
        rig = AgentRig(nats, postgres, directory)
        await rig.start()
        yield rig
        await rig.stop()


@pytest.fixture
def agent_rig(agent_house: AgentRig) -> AgentRig:
    """The shared house with its fakes as new."""
    agent_house.executor.reset()
    agent_house.approval.reset()
    return agent_house
