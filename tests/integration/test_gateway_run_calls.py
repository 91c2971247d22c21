"""`/api/runs`: start, look at, cancel; a run is its owner's alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from gateway_fake_agent import waiting_card
from gateway_rig import House, open_house

from placet.contracts.errors import ErrorCode
from placet.contracts.runs import StartRun
from placet.identity import keys
from placet.identity.grants import GrantMint, Purpose
from placet.messaging.command_queue import CommandQueue
from placet.messaging.rpc import RpcServer
from placet.observability.context import new_id


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def started(client: httpx.AsyncClient, question: str) -> str:
    answer = await client.post("/api/runs", json={"question": question})
    assert answer.status_code == 202
    return str(answer.json()["run_id"])


async def until(client: httpx.AsyncClient, run_id: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            body: dict[str, Any] = (await client.get(f"/api/runs/{run_id}")).json()
            if body["status"] == status:
                return body
            await asyncio.sleep(0.02)


@pytest.mark.spec("U6")
async def test_start_run_is_202_at_once_with_its_location(house: House) -> None:
    answer = await house.as_().post("/api/runs", json={"question": "hold"})
    run_id = answer.json()["run_id"]
    assert (answer.status_code, answer.json()) == (202, {"run_id": run_id})
    assert answer.headers["location"] == f"/api/runs/{run_id}"


@pytest.mark.spec("U6")
async def test_get_run_completed_shows_answer_and_what_may_be_cited_now(house: House) -> None:
    client = house.as_()
    body = await until(client, await started(client, "answer me"), "completed")
    assert set(body) == {
        "run_id",
        "status",
        "node",
        "attempts",
        "budget",
        "approval",
        "answer",
        "citations",
        "finish_reason",
        "updated_at",
    }
    assert (body["answer"], body["finish_reason"], body["approval"]) == ("650", "success", None)
    assert [one["chunk_id"] for one in body["citations"]] == ["doc-1:v2:chunk-01"]
    assert body["budget"]["steps"] == {"used": 0, "limit": 8.0}


@pytest.mark.spec("K3")
async def test_get_run_whose_citations_cannot_be_authorized_now_is_503_not_shown_unchecked(house: House) -> None:
    client = house.as_()
    run_id = await started(client, "answer me")
    await until(client, run_id, "completed")
    await house.executor.stop()
    try:
        answer = await client.get(f"/api/runs/{run_id}")
        assert (answer.status_code, answer.json()["code"]) == (503, ErrorCode.DEPENDENCY_UNAVAILABLE.value)
    finally:
        await house.executor.open()
    assert (await client.get(f"/api/runs/{run_id}")).status_code == 200


@pytest.mark.spec("I1", "U6")
async def test_status_of_a_run_is_not_told_either_while_nobody_knows_whether_its_owner_is_still_here(
    house: House,
) -> None:
    """Status, tool and proposal are what a dismissed person loses, too: with no word on that, it is "ask again"."""
    client = house.as_()
    run_id = await started(client, "refund A1001")
    await until(client, run_id, "waiting_for_human")
    await house.executor.stop()
    house.executor.dismissed = {"alice"}
    try:
        answer = await client.get(f"/api/runs/{run_id}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "refund" not in answer.text
    finally:
        await house.executor.open()
    house.executor.dismissed = {"alice"}
    assert (await client.get(f"/api/runs/{run_id}")).status_code == 404
    house.executor.dismissed = set()
    assert (await client.get(f"/api/runs/{run_id}")).json()["status"] == "waiting_for_human"


@pytest.mark.spec("U6")
async def test_get_run_waiting_for_a_person_shows_the_card(house: House) -> None:
    client = house.as_()
    body = await until(client, await started(client, "refund A1001"), "waiting_for_human")
    assert body["approval"]["proposal_id"] == "prop-1"
    assert body["approval"]["decision"] is None


@pytest.mark.spec("U6", "A3")
async def test_get_run_of_two_proposals_shows_the_one_that_is_still_undecided(house: House) -> None:
    client = house.as_()
    run_id = await started(client, "hold")
    await until(client, run_id, "running")
    cards = [waiting_card() | {"proposal_id": one} for one in ("prop-1", "prop-2")]
    await house.agent.append(run_id, "run-waiting-for-human", cards[0], waits_for=("prop-1",))
    await house.agent.append(run_id, "run-waiting-for-human", cards[1], waits_for=("prop-1", "prop-2"))
    decided = {"proposal_id": "prop-2", "decision": "approve"}
    await house.agent.append(run_id, "run-resumed", decided, waits_for=("prop-1",))
    body = (await client.get(f"/api/runs/{run_id}")).json()
    assert (body["status"], body["approval"]) == ("waiting_for_human", cards[0] | {"decision": None})


@pytest.mark.spec("U6", "I3")
async def test_get_run_still_queued_is_shown_to_its_owner_only(house: House) -> None:
    await house.agent.leave_jobs()
    try:
        alice = house.as_("alice")
        run_id = await started(alice, "answer me")
        body = (await alice.get(f"/api/runs/{run_id}")).json()
        assert (body["status"], body["run_id"], body["answer"]) == ("queued", run_id, None)
        for other in (house.as_("bob"), house.as_("alice", "globex")):
            assert (await other.get(f"/api/runs/{run_id}")).status_code == 404
            assert (await other.get(f"/api/runs/{run_id}/events")).status_code == 404
    finally:
        await house.agent.take_jobs()
    assert (await until(alice, run_id, "completed"))["answer"] == "650"


async def test_get_run_never_looks_absent_while_it_leaves_the_queue(house: House) -> None:
    client = house.as_()

    async def watch(run_id: str) -> set[int]:
        statuses = set()
        for _ in range(20):
            statuses.add((await client.get(f"/api/runs/{run_id}")).status_code)
        return statuses

    for _ in range(8):
        assert await watch(await started(client, "answer me")) == {200}


@pytest.mark.spec("I2")
async def test_get_run_queued_under_a_grant_the_gateway_never_made_belongs_to_nobody(house: House) -> None:
    await house.agent.leave_jobs()
    try:
        run_id = new_id("run")
        forged = GrantMint(keys.generate()).mint(
            tenant="acme", actor="alice", purpose=Purpose.RUN, request_id="req-1", lifetime_s=600, run_id=run_id
        )
        command = StartRun(grant=forged, run_id=run_id, conversation_id="c", question="answer me")
        await CommandQueue(await house.nats.bus("gateway")).put("acme", "agent", "start-run", run_id, command)
        assert (await house.as_().get(f"/api/runs/{run_id}")).status_code == 404
    finally:
        await house.agent.take_jobs()


@pytest.mark.spec("U6")
async def test_cancel_own_run_is_202_and_completes_it_as_cancelled(house: House) -> None:
    client = house.as_()
    run_id = await started(client, "hold")
    await until(client, run_id, "running")
    answer = await client.post(f"/api/runs/{run_id}/cancel")
    assert (answer.status_code, answer.json()) == (202, {"run_id": run_id})
    assert (await until(client, run_id, "completed"))["finish_reason"] == "cancelled"


@pytest.mark.spec("I2")
async def test_cancel_gives_the_agent_a_grant_for_this_run_only(house: House) -> None:
    client = house.as_()
    run_id = await started(client, "hold")
    await until(client, run_id, "running")
    await client.post(f"/api/runs/{run_id}/cancel")
    grant = house.agent.last("cancel-run").grant
    assert (grant.purpose, grant.run_id, grant.actor) == (Purpose.RUN, run_id, "alice")


@pytest.mark.spec("I3")
async def test_cancel_run_of_another_person_is_404_and_never_reaches_the_agent(house: House) -> None:
    alice = house.as_("alice")
    run_id = await started(alice, "hold")
    await until(alice, run_id, "running")
    before = house.agent.count("cancel-run")
    assert (await house.as_("bob").post(f"/api/runs/{run_id}/cancel")).status_code == 404
    assert house.agent.count("cancel-run") == before


async def test_cancel_with_nobody_to_take_it_is_503_and_worth_a_retry(house: House) -> None:
    client = house.as_()
    run_id = await started(client, "hold")
    await until(client, run_id, "running")
    server = house.agent.server
    assert isinstance(server, RpcServer)
    await server.stop()
    try:
        answer = await client.post(f"/api/runs/{run_id}/cancel", headers={"Idempotency-Key": "cancel-1"})
        assert (answer.status_code, answer.json()["code"]) == (503, "dependency_unavailable")
        assert answer.headers["retry-after"] == "1"
    finally:
        await server.start()
    again = await client.post(f"/api/runs/{run_id}/cancel", headers={"Idempotency-Key": "cancel-1"})
    assert again.status_code == 202
