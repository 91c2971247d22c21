"""One bus, database, approval service and tool-executor for the governance tests of a session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.testkit.nats import NatsRig
from tests.integration.agent_rig import AgentRig
from tests.integration.document_house import DocumentHouse
from tests.integration.foundations import foundations
from tests.integration.governance_rig import GovernanceRig
from tests.integration.whole_house import WholeHouse


@pytest.fixture(scope="session")
async def governance() -> AsyncIterator[GovernanceRig]:
    """Tests share it: each uses orders and people of its own."""
    async with foundations() as (nats, postgres, directory):
        rig = GovernanceRig(nats, postgres, directory)
        await rig.start()
        yield rig
        await rig.stop()


@pytest.fixture(scope="session")
async def apart(governance: GovernanceRig) -> AsyncIterator[GovernanceRig]:
    """Bus, policies and services of their own beside the shared database: to be changed, killed and doubled."""
    directory = Path(tempfile.mkdtemp(prefix="placet-apart-"))
    directory.chmod(0o755)
    (directory / "nats").mkdir()
    nats = NatsRig(directory / "nats")
    try:
        await nats.start()
        rig = GovernanceRig(nats, governance.postgres, directory)
        await rig.start()
        yield rig
        await rig.stop()
    finally:
        await nats.close()
        shutil.rmtree(directory, ignore_errors=True)


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


@pytest.fixture(scope="session")
async def document_house(governance: GovernanceRig) -> AsyncIterator[DocumentHouse]:
    """The governance house with a gateway in front. Tests share it: each has documents of its own."""
    house = DocumentHouse(governance)
    await house.start(gateway_upload_bytes=3_000_000)
    yield house
    await house.stop()


@pytest.fixture(scope="module")
async def whole_house(apart: GovernanceRig) -> AsyncIterator[WholeHouse]:
    """Every service, real, for one module: its parts may be stopped and killed, if they are started again."""
    house = WholeHouse(apart)
    await house.open()
    yield house
    await house.close()
