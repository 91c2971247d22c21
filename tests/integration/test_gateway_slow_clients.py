"""Clients that are slow, stuck or gone, and a gateway that stops: no stream holds anything for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from gateway_rig import House, open_house
from gateway_streams import begin, ids, read, seats, stubborn

from services.gateway.handlers import event_response


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house(gateway_heartbeat_s=0.4) as opened:
        yield opened


@pytest.mark.spec("U5")
async def test_events_client_that_stops_reading_is_let_go_and_can_come_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket takes nothing more, the server's buffers fill, its bounded queue overflows."""
    monkeypatch.setattr(house.gateway.app.state.connection.hub, "_queue_size", 20)
    run_id = await begin(house)
    connection, raw = await stubborn(house, run_id)
    assert b"200" in raw.split(b"\r\n", 1)[0]
    last = 700
    for _ in range(last - 1):
        await house.agent.append(run_id, "message-delta", {"text": "x" * 20_000})
    assert [seat._queue.qsize() for seat in seats(house, run_id)] == [20]
    loop = asyncio.get_running_loop()
    parts = [raw]
    async with asyncio.timeout(60):
        while not parts[-1].endswith(b"\r\n0\r\n\r\n"):
            parts.append(await loop.sock_recv(connection, 1 << 16))
    connection.close()
    got = [int(line[4:]) for line in b"".join(parts).split(b"\n") if line.startswith(b"id: ")]
    assert got == list(range(1, len(got) + 1))
    assert 20 <= len(got) < last
    assert seats(house, run_id) == []
    await house.agent.complete(run_id, "", [])
    assert ids(await read(house.as_(), run_id, str(len(got)))) == list(range(len(got) + 1, last + 2))


async def test_events_client_that_takes_no_byte_for_long_is_cut_off(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_response, "_SEND_TIMEOUT_S", 0.3)
    run_id = await begin(house)
    connection, _ = await stubborn(house, run_id)
    for _ in range(60):
        await house.agent.append(run_id, "message-delta", {"text": "x" * 200_000})
    async with asyncio.timeout(60):
        while seats(house, run_id):
            await asyncio.sleep(0.05)
    connection.close()


async def test_events_client_that_leaves_frees_its_place(house: House) -> None:
    run_id = await begin(house)
    client = house.as_()
    await read(client, run_id, most=1)
    async with asyncio.timeout(30):
        while seats(house, run_id):
            await asyncio.sleep(0.02)


async def test_events_gateway_that_stops_ends_every_stream_promptly(house: House) -> None:
    run_id = await begin(house)
    async with house.another_gateway() as other:
        reading = [asyncio.create_task(read(house.as_(url=other.url), run_id)) for _ in range(5)]
        chat = asyncio.create_task(house.as_(url=other.url).post("/api/chat", json={"question": "hold"}))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await other.stop()
        assert time.monotonic() - began < 5.0
        assert [ids(await one) for one in reading] == [[1]] * 5
        answer = await chat
        assert (answer.status_code, answer.json()["status"]) == (202, "running")
