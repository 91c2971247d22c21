"""`Idempotency-Key`: one call, one answer, also across replicas and crashes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from gateway_rig import House, open_house

from placet.messaging.kv import KeyValue
from services.gateway.adapters.kv_idempotency import KvIdempotency
from services.gateway.domain.idempotency import ABANDONED_AFTER_S, PATIENCE_S, Entry, fingerprint, storage_key


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def call(
    client: httpx.AsyncClient, key: str, args: dict[str, Any], tool: str = "echo", **headers: str
) -> httpx.Response:
    return await client.post(
        f"/api/tools/{tool}/calls", json={"args": args}, headers={"Idempotency-Key": key, **headers}
    )


@pytest.mark.spec("G8")
async def test_same_key_and_body_gets_the_same_answer_and_works_once(house: House) -> None:
    client, before = house.as_(), house.executor.count("execute-tool")
    first = await call(client, "key-1", {"n": 1}, **{"X-Request-ID": "req-first"})
    second = await call(client, "key-1", {"n": 1}, **{"X-Request-ID": "req-second"})
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.headers["content-type"] == second.headers["content-type"] == "application/json"
    assert second.headers["x-request-id"] == "req-second"
    assert house.executor.count("execute-tool") == before + 1


async def test_same_key_other_body_is_409_mismatch(house: House) -> None:
    client = house.as_()
    await call(client, "key-2", {"n": 1})
    answer = await call(client, "key-2", {"n": 2})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_mismatch")


async def test_same_key_same_json_with_other_spaces_is_the_same_body(house: House) -> None:
    client, headers = house.as_(), {"Idempotency-Key": "key-3", "Content-Type": "application/json"}
    path = "/api/tools/echo/calls"
    first = await client.post(path, content=b'{"args":{"a":1,"b":2}}', headers=headers)
    second = await client.post(path, content=b'{ "args": {"b": 2, "a": 1} }', headers=headers)
    assert first.content == second.content


async def test_same_key_of_another_person_or_path_is_another_call(house: House) -> None:
    alice, bob = house.as_("alice"), house.as_("bob")
    ids = {
        (await call(alice, "key-4", {})).json()["call_id"],
        (await call(bob, "key-4", {})).json()["call_id"],
        (await call(house.as_("alice", "globex"), "key-4", {})).json()["call_id"],
    }
    assert len(ids) == 3
    run = await alice.post("/api/runs", json={"question": "hold"}, headers={"Idempotency-Key": "key-4"})
    assert run.status_code == 202


async def test_definite_refusal_is_repeated_without_asking_again(house: House) -> None:
    client = house.as_()
    first = await call(client, "key-5", {}, tool="no_such_tool")
    asked = house.executor.count("execute-tool")
    second = await call(client, "key-5", {}, tool="no_such_tool")
    assert (first.status_code, second.status_code) == (403, 403)
    assert first.content == second.content
    assert house.executor.count("execute-tool") == asked


@pytest.mark.parametrize(("tool", "status"), [("busy", 429), ("policyless", 503)])
async def test_answer_of_the_moment_is_tried_again_with_the_same_call_id(house: House, tool: str, status: int) -> None:
    client = house.as_()
    for _ in range(2):
        assert (await call(client, f"key-{tool}", {}, tool=tool)).status_code == status
    calls = [one.command.call_id for one in house.executor.asked if one.name == "execute-tool"][-2:]
    assert calls[0] == calls[1]


@pytest.mark.spec("G8")
async def test_concurrent_calls_with_one_key_on_two_replicas_work_once(house: House) -> None:
    house.executor.delay_s = 0.3
    before = house.executor.count("execute-tool")
    try:
        async with house.another_gateway() as other:
            clients = [house.as_(), house.as_(url=other.url)] * 5
            answers = await asyncio.gather(*(call(client, "key-6", {"n": 1}) for client in clients))
    finally:
        house.executor.delay_s = 0.0
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert house.executor.count("execute-tool") == before + 1


async def leave_marker(house: House, key: str, path: str, body: bytes, skew_s: float = 0.0) -> None:
    """What a gateway that died in the middle of a call leaves behind."""
    store = KvIdempotency(KeyValue(await house.nats.bus("gateway"), "IDEMPOTENCY"))
    entry = Entry(fingerprint(b"", body), time.time() + skew_s)
    assert await store.create(storage_key("acme", "alice", "POST", path, key), entry) is not None


async def test_call_in_progress_for_longer_than_a_marker_lives_is_waited_for_and_not_done_twice(house: House) -> None:
    before = house.executor.count("execute-tool")
    house.executor.delay_s = ABANDONED_AFTER_S + 1.5
    try:
        first = asyncio.create_task(call(house.as_(), "key-7", {}))
        while house.executor.count("execute-tool") == before:
            await asyncio.sleep(0.02)
        second = await call(house.as_(), "key-7", {})
    finally:
        house.executor.delay_s = 0.0
    assert (second.status_code, second.content) == (200, (await first).content)
    assert house.executor.count("execute-tool") == before + 1


async def test_call_in_progress_for_longer_than_anybody_waits_makes_a_repeat_come_back_later(house: House) -> None:
    path, body = "/api/tools/echo/calls", b'{"args":{}}'
    await leave_marker(house, "key-11", path, body)
    store = KvIdempotency(KeyValue(await house.nats.bus("gateway"), "IDEMPOTENCY"))

    async def at_work() -> None:
        while True:
            found = await store.find(storage_key("acme", "alice", "POST", path, "key-11"))
            if found:
                await store.replace(storage_key("acme", "alice", "POST", path, "key-11"), *found)
            await asyncio.sleep(0.5)

    working = asyncio.create_task(at_work())
    began = time.monotonic()
    answer = await call(house.as_(), "key-11", {})
    working.cancel()
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert time.monotonic() - began > PATIENCE_S * 0.8


@pytest.mark.parametrize("skew_s", [-120.0, 0.0, 120.0])
async def test_marker_abandoned_by_a_dead_gateway_is_taken_over_whatever_its_clock_said(
    house: House, skew_s: float
) -> None:
    await leave_marker(house, f"key-8{skew_s}", "/api/tools/echo/calls", b'{"args":{}}', skew_s)
    client = house.as_()
    began = time.monotonic()
    first = await call(client, f"key-8{skew_s}", {})
    assert first.status_code == 200
    assert time.monotonic() - began > ABANDONED_AFTER_S * 0.9
    assert (await call(client, f"key-8{skew_s}", {})).content == first.content


@pytest.mark.spec("G8", "U6")
async def test_run_started_again_after_a_crash_is_the_same_run(house: House) -> None:
    client, headers = house.as_(), {"Idempotency-Key": "key-9"}
    body = {"question": "hold this"}
    first = (await client.post("/api/runs", json=body, headers=headers)).json()["run_id"]
    store = KvIdempotency(KeyValue(await house.nats.bus("gateway"), "IDEMPOTENCY"))
    key = storage_key("acme", "alice", "POST", "/api/runs", "key-9")
    found = await store.find(key)
    assert found is not None
    crashed = Entry(found[0].fingerprint, time.time())
    assert await store.replace(key, crashed, found[1]) is not None
    again = await client.post("/api/runs", json=body, headers=headers)
    assert again.json()["run_id"] == first
    assert again.headers["location"] == f"/api/runs/{first}"
    async with asyncio.timeout(60):
        while not house.agent.runs.get(first):
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    assert [job.event.entity for job in house.agent.jobs].count(first) == 1


async def test_location_header_is_repeated_with_the_answer(house: House) -> None:
    client, headers = house.as_(), {"Idempotency-Key": "key-10"}
    answers = [await client.post("/api/runs", json={"question": "hold"}, headers=headers) for _ in range(2)]
    assert answers[0].headers["location"] == answers[1].headers["location"]


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel"])
async def test_key_that_cannot_be_one_is_422(house: House, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("utf-8")}
    answer = await house.as_().post("/api/tools/echo/calls", json={"args": {}}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_without_key_every_call_is_its_own(house: House) -> None:
    client = house.as_()
    ids = {(await client.post("/api/tools/echo/calls", json={"args": {}})).json()["call_id"] for _ in range(2)}
    assert len(ids) == 2
