"""The bus goes away and comes back; the process starts, drains and stops."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from gateway_process import process
from gateway_rig import House, open_house
from gateway_streams import frames

from placet.testkit.ports import free_port


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """Of each test alone: its bus is killed."""
    async with open_house(gateway_heartbeat_s=0.5) as opened:
        yield opened


async def until_ready(client: httpx.AsyncClient, ready: bool, patience_s: float = 15.0) -> httpx.Response:
    async with asyncio.timeout(patience_s):
        while True:
            answer = await client.get("/readyz")
            if answer.json()["ready"] is ready:
                return answer
            await asyncio.sleep(0.05)


async def test_readiness_bus_away_is_false_and_recovers_by_itself(house: House) -> None:
    client = house.as_()
    assert (await client.get("/readyz")).json() == {"ready": True, "checks": {"bus": True}}
    house.nats.kill9()
    assert (await until_ready(client, False)).status_code == 503
    assert (await client.get("/healthz")).status_code == 200
    await house.nats.start_bare()
    assert (await until_ready(client, True)).status_code == 200


async def test_calls_while_the_bus_is_away_are_503_and_nothing_is_sent_later(house: House) -> None:
    client = house.as_()
    house.nats.kill9()
    await until_ready(client, False)
    for method, path, body in (
        ("GET", "/api/documents", None),
        ("POST", "/api/runs", {"question": "answer me"}),
        ("POST", "/api/tools/echo/calls", {"args": {}}),
        ("GET", "/api/runs/run-1", None),
    ):
        answer = await client.request(method, path, json=body, headers={"Idempotency-Key": f"key{path}"})
        assert (path, answer.status_code, answer.json()["code"]) == (path, 503, "dependency_unavailable")
    await house.nats.start_bare()
    await until_ready(client, True)
    await asyncio.sleep(0.5)
    assert house.executor.asked == []
    assert house.agent.jobs == []
    answer = await client.post("/api/tools/echo/calls", json={"args": {}}, headers={"Idempotency-Key": "later"})
    assert answer.status_code == 200


@pytest.mark.spec("U5")
async def test_event_stream_open_while_the_bus_was_away_goes_on_without_a_gap(house: House) -> None:
    client = house.as_()
    run_id = (await client.post("/api/runs", json={"question": "hold"})).json()["run_id"]
    seen: list[int] = []

    async def follow() -> None:
        async with client.stream("GET", f"/api/runs/{run_id}/events") as response:
            async for one in frames(response):
                seen.extend([one.id] if one.id is not None else [])

    following = asyncio.create_task(follow())
    async with asyncio.timeout(60):
        while not seen:
            await asyncio.sleep(0.02)
        house.nats.kill9()
        await until_ready(client, False)
        await house.nats.start_bare()
        while not await house.agent.bus.ready():
            await asyncio.sleep(0.02)
        # Appended at once: perhaps before the gateway has found its way back.
        for n in range(5):
            await house.agent.append(run_id, "message-delta", {"text": str(n)})
        await house.agent.complete(run_id, "", [])
        await following
    assert seen == list(range(1, 8))


async def test_process_on_sigterm_ends_streams_answers_what_is_open_and_exits_0(house: House) -> None:
    async with process(house) as gateway:
        child, url = gateway.child, gateway.url
        await gateway.until_up()
        client = house.as_(url=url)
        run_id = (await client.post("/api/runs", json={"question": "hold"})).json()["run_id"]
        house.executor.delay_s = 1.0
        open_call = asyncio.create_task(client.post("/api/tools/echo/calls", json={"args": {}}))
        async with client.stream("GET", f"/api/runs/{run_id}/events") as response:
            stream = frames(response)
            assert (await anext(stream)).id == 1
            began = time.monotonic()
            child.send_signal(signal.SIGTERM)
            assert [one async for one in stream] == []
            assert time.monotonic() - began < 5.0
        assert (await open_call).status_code == 200
        assert await asyncio.wait_for(child.wait(), 10) == 0


async def test_process_with_a_bus_that_never_comes_can_be_stopped(house: House) -> None:
    async with process(house, PLACET_NATS_URL=f"nats://127.0.0.1:{free_port()}") as gateway:
        child = gateway.child
        assert child.stderr is not None
        assert b"connecting" in await asyncio.wait_for(child.stderr.readline(), 20)
        assert child.returncode is None
        child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(child.wait(), 10) == 1


async def test_process_without_settings_says_what_is_missing(house: House) -> None:
    async with process(house, PLACET_GATEWAY_JWKS_FILE="") as gateway:
        child = gateway.child
        _, error = await asyncio.wait_for(child.communicate(), 20)
        assert child.returncode == 1
        assert b"set exactly one of PLACET_GATEWAY_JWKS_FILE and PLACET_GATEWAY_JWKS_URL" in error
