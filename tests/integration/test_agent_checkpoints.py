"""What the database holds of a run: ids while it waits, nothing when it is over."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import psycopg
import pytest

from placet.contracts.execution import ExecuteTool, ToolReply
from placet.messaging.kv import KeyValue
from placet.testkit.waiting import until
from services.agent.domain.asking import PlannedCall
from tests.integration.agent_fakes import (
    TENANT,
    Passage,
    reply,
)
from tests.integration.agent_models import scripted
from tests.integration.agent_rig import AgentRig


def refund(order_id: str) -> PlannedCall:
    return PlannedCall("refund_payment", {"order_id": order_id, "amount": 10, "reason": "broken"})


async def stored(rig: AgentRig, run_id: str) -> bytes:
    """Every byte that the checkpoint tables hold of one run."""
    found = b""
    async with await psycopg.AsyncConnection.connect(rig.postgres.url("placet_agent")) as connection:
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            cursor = await connection.execute(
                f"SELECT * FROM {table} WHERE thread_id = %s",
                (f"{TENANT}.{run_id}",),
            )
            for row in await cursor.fetchall():
                found += b"".join(
                    bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode() for value in row
                )
    return found


@pytest.mark.spec("U2", "U4", "T11")
async def test_checkpoints_of_a_waiting_run_hold_ids_but_no_evidence_no_grant_and_no_question(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = Passage("doc-plan:v1:chunk-01", "CANARY-EVIDENCE cuts jobs.", "CANARY-TITLE")
    agent_rig.executor.passages[:] = [secret]

    async def record(command: ExecuteTool) -> ToolReply:
        return reply(command, {"items": [{"order_id": "A1001", "item": "CANARY-RECORD"}], "next": None})

    agent_rig.executor.answers["query_business_data"] = record
    look_up = PlannedCall("query_business_data", {"entity": "orders", "order_id": "A1001"})
    scripted(monkeypatch, PlannedCall("search_knowledge", {"query": "plan", "k": 3}), look_up, refund("A1001"))
    run_id = await agent_rig.parked("Please refund order A1001, 10, CANARY-QUESTION.")
    rows = await stored(agent_rig, run_id)
    assert b"doc-plan:v1:chunk-01" in rows
    assert b"CANARY" not in rows
    assert agent_rig.executor.of(run_id)[0].grant.encode() not in rows
    # Resumed with the right to read gone: the receipt is told, the evidence is not.
    agent_rig.executor.passages.clear()
    await agent_rig.complete(run_id, call=0)
    done = await agent_rig.finished(run_id)
    assert "CANARY-EVIDENCE" not in str(done)
    assert done["citations"] == []


@pytest.mark.spec("U2")
async def test_checkpoints_and_grant_of_a_completed_run_are_gone(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    control = KeyValue(await agent_rig.nats.bus("agent"), "RUN_CONTROL")
    assert await control.get(f"{TENANT}.{run_id}") is not None
    await agent_rig.complete(run_id)
    await agent_rig.finished(run_id)

    async def gone() -> bool:
        return await stored(agent_rig, run_id) == b"" and await control.get(f"{TENANT}.{run_id}") is None

    await until(gone)


@pytest.mark.spec("U2", "U4")
async def test_checkpoints_under_a_key_hold_no_argument_in_plain_and_the_run_is_resumed_from_them(
    agent_rig: AgentRig, tmp_path: Path
) -> None:
    plain = await agent_rig.parked("Please refund order A1001, 299, PLAIN-REASON")
    assert b"PLAIN-REASON" in await stored(agent_rig, plain)
    key_file = tmp_path / "checkpoint.keys"
    key_file.write_text(base64.b64encode(os.urandom(32)).decode())
    await agent_rig.stop_agent()
    await agent_rig.start_agent(agent_checkpoint_key_file=key_file)
    try:
        run_id = await agent_rig.parked("Please refund order A1002, 299, SEALED-REASON")
        rows = await stored(agent_rig, run_id)
        assert len(rows) > 1000
        for secret in (b"SEALED-REASON", b"order_id", b"refund_payment"):
            assert secret not in rows
        for waiting in (run_id, plain):  # what was written before there was a key is still read
            await agent_rig.complete(waiting)
            assert (await agent_rig.finished(waiting))["finish_reason"] == "success"
    finally:
        await agent_rig.stop_agent()
        await agent_rig.start_agent()
