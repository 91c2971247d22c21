"""The executor with a policy engine that is down or never answers: everything is refused, nothing is done (T4)."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.testkit.nats import NatsRig
from placet.testkit.ports import free_port
from services.tool_executor.app import build as build_executor
from tests.integration.governance_rig import GovernanceRig


@pytest.fixture
async def prepared(governance: GovernanceRig) -> AsyncIterator[GovernanceRig]:
    """A bus of its own beside the shared database, without services."""
    directory = Path(tempfile.mkdtemp(prefix="placet-deaf-"))
    (directory / "nats").mkdir()
    nats = NatsRig(directory / "nats")
    try:
        await nats.start()
        rig = GovernanceRig(nats, governance.postgres, directory)
        await rig.prepare()
        yield rig
    finally:
        await nats.close()
        shutil.rmtree(directory, ignore_errors=True)


async def _silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(1024):
        pass


@pytest.mark.spec("T4")
@pytest.mark.parametrize("engine", ["down", "slow"])
async def test_call_without_an_answer_of_policy_is_policy_unavailable(prepared: GovernanceRig, engine: str) -> None:
    port = free_port()
    server = await asyncio.start_server(_silent, "127.0.0.1", port) if engine == "slow" else None
    settings = prepared.executor_settings(policy_engine="opa", opa_url=f"http://127.0.0.1:{port}")
    prepared.executor = await build_executor(settings)
    await prepared.executor.start()
    try:
        for tool, args in (
            ("query_business_data", {"entity": "orders"}),
            ("refund_payment", {"order_id": "A1001", "amount": 1, "reason": "x"}),
        ):
            with pytest.raises(PlacetError) as caught:
                await prepared.execute("alice", tool, args)
            assert caught.value.code is ErrorCode.POLICY_UNAVAILABLE
            assert caught.value.retryable
        assert await prepared.effects_reader().page("placet.acme.tool-executor.evt.>", after=0, limit=5) == []
    finally:
        await prepared.executor.stop()
        if server:
            server.close()
