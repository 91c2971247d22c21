"""One bus, database, approval service and tool-executor for the governance tests of a session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig
from tests.integration.agent_rig import AgentRig
from tests.integration.governance_rig import GovernanceRig


@pytest.fixture(scope="session")
async def governance() -> AsyncIterator[GovernanceRig]:
    """Tests share it: each uses orders and people of its own."""
    directory = Path(tempfile.mkdtemp(prefix="placet-governance-"))
    directory.chmod(0o755)  # the database runs as an unprivileged user below it
    (directory / "nats").mkdir()
    nats, postgres = NatsRig(directory / "nats"), PostgresRig(directory / "postgres")
    try:
        await nats.start()
        await postgres.start()
        rig = GovernanceRig(nats, postgres, directory)
        await rig.start()
        yield rig
        await rig.stop()
    finally:
        await nats.close()
        await postgres.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
async def agent_house() -> AsyncIterator[AgentRig]:
    """The agent and memory services with fakes of the others. Tests share it: each has runs of its own."""
    directory = Path(tempfile.mkdtemp(prefix="placet-agent-"))
    directory.chmod(0o755)  # the database runs as an unprivileged user below it
    (directory / "nats").mkdir()
    nats, postgres = NatsRig(directory / "nats"), PostgresRig(directory / "postgres")
    try:
        await nats.start()
        await postgres.start()
        rig = AgentRig(nats, postgres, directory)
        await rig.start()
        yield rig
        await rig.stop()
    finally:
        await nats.close()
        await postgres.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def agent_rig(agent_house: AgentRig) -> AgentRig:
    """The shared house with its fakes as new."""
    agent_house.executor.reset()
    agent_house.approval.reset()
    return agent_house
