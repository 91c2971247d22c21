"""`POST /api/chat`: answered, waiting for a person, or still running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from gateway_rig import House, open_house

from placet.identity.grants import Purpose
from placet.testkit.builders import TENANT


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house(gateway_chat_wait_s=2.0) as opened:
        yield opened


@pytest.mark.spec("U6")
async def test_chat_answered_run_is_200_with_answer_and_citations(house: House) -> None:
    answer = await house.as_().post("/api/chat", json={"question": "answer me", "conversation_id": "conv-7"})
    body = answer.json()
    assert answer.status_code == 200
    assert set(body) == {"run_id", "conversation_id", "answer", "citations", "finish_reason"}
    assert (body["conversation_id"], body["answer"], body["finish_reason"]) == ("conv-7", "650", "success")
    assert body["citations"][0] == {
        "chunk_id": "doc-1:v2:chunk-01",
        "document_id": "doc-1",
        "title": "Travel",
        "version": 2,
        "page": None,
        "section": None,
        "snippet": "650 per night",
        "href": "/api/documents/doc-1/source?version=2",
    }


@pytest.mark.spec("K3")
async def test_chat_citation_that_may_not_be_read_now_is_left_out(house: House) -> None:
    body = (await house.as_().post("/api/chat", json={"question": "answer me"})).json()
    assert [one["chunk_id"] for one in body["citations"]] == ["doc-1:v2:chunk-01"]
    assert "doc-9" not in str(body)
    assert house.executor.last("resolve-citations").grant.actor == "alice"


@pytest.mark.spec("U6", "U5")
async def test_chat_run_that_needs_a_person_is_202_with_the_card_at_once(house: House) -> None:
    began = time.monotonic()
    answer = await house.as_().post("/api/chat", json={"question": "refund order A1001"})
    body = answer.json()
    assert answer.status_code == 202
    assert body["status"] == "waiting_for_human"
    assert set(body["proposal"]) == {"proposal_id", "tool", "title", "risk", "expires_at"}
    assert body["proposal"]["proposal_id"] == "prop-1"
    assert time.monotonic() - began < 1.9


@pytest.mark.spec("U6")
async def test_chat_run_that_takes_too_long_is_202_running(house: House) -> None:
    began = time.monotonic()
    answer = await house.as_().post("/api/chat", json={"question": "hold on"})
    body = answer.json()
    assert answer.status_code == 202
    assert set(body) == {"run_id", "conversation_id", "status"}
    assert body["status"] == "running"
    assert 1.9 < time.monotonic() - began < 8
    assert (await house.as_().get(f"/api/runs/{body['run_id']}")).json()["status"] == "running"


@pytest.mark.spec("I2")
async def test_chat_run_carries_a_grant_for_this_person_and_this_run_only(house: House) -> None:
    body = (await house.as_("bob").post("/api/chat", json={"question": "answer me"})).json()
    job = house.agent.jobs[-1]
    token = job.event.envelope.data["grant"]
    grant = house.keys.grants().verify(token, TENANT, purpose=Purpose.RUN, run_id=body["run_id"])
    assert (grant.actor, grant.tenant) == ("bob", "acme")
    assert 86_000 < grant.expires - time.time() <= 86_400


@pytest.mark.spec("L1")
async def test_chat_request_id_travels_with_the_run(house: House) -> None:
    headers = {"X-Request-ID": "req-hop"}
    await house.as_().post("/api/chat", json={"question": "answer me"}, headers=headers)
    envelope = house.agent.jobs[-1].event.envelope
    assert (envelope.correlationid, envelope.actor, envelope.tenant) == ("req-hop", "alice", "acme")
    assert envelope.traceparent


async def test_chat_many_at_once_are_each_answered_with_their_own_run(house: House) -> None:
    client = house.as_()
    answers = await asyncio.gather(
        *(client.post("/api/chat", json={"question": "answer me", "conversation_id": f"c-{n}"}) for n in range(40))
    )
    assert {answer.status_code for answer in answers} == {200}
    assert [answer.json()["conversation_id"] for answer in answers] == [f"c-{n}" for n in range(40)]
    assert len({answer.json()["run_id"] for answer in answers}) == 40


async def test_chat_without_conversation_gets_a_new_one_each_time(house: House) -> None:
    client = house.as_()
    ids = {(await client.post("/api/chat", json={"question": "answer me"})).json()["conversation_id"] for _ in range(2)}
    assert len(ids) == 2
