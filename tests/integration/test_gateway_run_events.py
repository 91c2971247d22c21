"""`GET /api/runs/{id}/events`: replay, live, gapless, bounded, ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from gateway_rig import Frame, House, frames, open_house

from placet.identity.grants import Grant, Purpose
from placet.observability.context import new_id


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house(gateway_heartbeat_s=0.4) as opened:
        yield opened


async def begin(house: House, owner: str = "alice") -> str:
    """A run that the test drives itself."""
    run_id = new_id("run")
    await house.agent.begin(Grant("acme", owner, Purpose.RUN, "req-1", 0, run_id), run_id)
    return run_id


async def delta(house: House, run_id: str, count: int = 1) -> None:
    for n in range(count):
        await house.agent.append(run_id, "message-delta", {"text": f"{n} 好"})


async def read(
    client: httpx.AsyncClient, run_id: str, last_id: str | None = None, most: int | None = None
) -> list[Frame]:
    """The events until the stream ends, or the first `most` of them."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    got: list[Frame] = []
    async with asyncio.timeout(15), client.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as response:
        assert response.status_code == 200
        async for one in frames(response):
            if one.id is not None:
                got.append(one)
            if len(got) == most:
                break
    return got


def ids(got: list[Frame]) -> list[int | None]:
    return [one.id for one in got]


@pytest.mark.spec("U5")
async def test_events_of_a_completed_run_are_replayed_in_full_and_end(house: House) -> None:
    run_id = await begin(house)
    await house.agent.append(run_id, "run-routed", {"route": "fixed_rag"})
    await delta(house, run_id, 3)
    await house.agent.complete(run_id, "650", ["doc-1:v2:chunk-01", "doc-9:v1:chunk-01"])
    got = await read(house.as_(), run_id)
    assert ids(got) == [1, 2, 3, 4, 5, 6]
    assert [one.event for one in got] == [
        "run.started",
        "run.routed",
        "message.delta",
        "message.delta",
        "message.delta",
        "run.completed",
    ]
    first = got[0].data or {}
    assert set(first) == {"run_id", "seq", "type", "time", "data"}
    assert (first["run_id"], first["seq"], first["type"]) == (run_id, 1, "run.started")


@pytest.mark.spec("K3", "U5")
async def test_events_completed_run_shows_only_what_may_be_cited_now(house: House) -> None:
    run_id = await begin(house)
    await house.agent.complete(run_id, "650", ["doc-1:v2:chunk-01", "doc-9:v1:chunk-01"])
    last = (await read(house.as_(), run_id))[-1].data or {}
    assert [one["chunk_id"] for one in last["data"]["citations"]] == ["doc-1:v2:chunk-01"]


async def test_events_response_is_an_uncached_unbuffered_event_stream(house: House) -> None:
    run_id = await begin(house)
    await house.agent.complete(run_id, "", [])
    async with house.as_().stream("GET", f"/api/runs/{run_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["x-request-id"]


@pytest.mark.spec("U5")
@pytest.mark.parametrize(("last_id", "expected"), [("2", [3, 4, 5]), ("4", [5]), ("5", []), ("0", [1, 2, 3, 4, 5])])
async def test_events_after_last_event_id_replays_what_was_missed(
    house: House, last_id: str, expected: list[int]
) -> None:
    run_id = await begin(house)
    await delta(house, run_id, 3)
    await house.agent.complete(run_id, "", [])
    assert ids(await read(house.as_(), run_id, last_id)) == expected


@pytest.mark.parametrize("last_id", ["", "-1", "abc", "6", "999", "1.5", "9" * 40])
async def test_events_after_an_id_that_is_none_of_this_run_start_from_the_start(house: House, last_id: str) -> None:
    run_id = await begin(house)
    await delta(house, run_id, 3)
    await house.agent.complete(run_id, "", [])
    assert ids(await read(house.as_(), run_id, last_id)) == [1, 2, 3, 4, 5]


@pytest.mark.spec("U5")
async def test_events_of_many_clients_that_join_at_any_time_have_no_gap_and_no_repeat(house: House) -> None:
    run_id = await begin(house)
    client = house.as_()

    async def join(after_s: float) -> list[Frame]:
        await asyncio.sleep(after_s)
        return await read(client, run_id)

    readers = [asyncio.create_task(join(n * 0.01)) for n in range(50)]
    for _ in range(60):
        await delta(house, run_id)
        await asyncio.sleep(0.005)
    await house.agent.complete(run_id, "", [])
    for reader in readers:
        assert ids(await reader) == list(range(1, 63))


@pytest.mark.spec("U5")
async def test_events_client_that_comes_back_again_and_again_sees_each_event_once(house: House) -> None:
    run_id = await begin(house)
    client = house.as_()

    async def drive() -> None:
        for _ in range(40):
            await delta(house, run_id)
            await asyncio.sleep(0.01)
        await house.agent.complete(run_id, "", [])

    driving = asyncio.create_task(drive())
    seen: list[int | None] = []
    while not seen or seen[-1] != 42:
        seen += ids(await read(client, run_id, str(seen[-1]) if seen else None, most=3))
    await driving
    assert seen == list(range(1, 43))


@pytest.mark.spec("U5")
async def test_events_of_a_silent_run_carry_heartbeats_as_comments(house: House) -> None:
    run_id = await begin(house)
    beats = 0
    async with house.as_().stream("GET", f"/api/runs/{run_id}/events") as response:
        async with asyncio.timeout(5):
            async for one in frames(response):
                beats += one.id is None
                if beats == 2:
                    break
    await house.agent.complete(run_id, "", [])


@pytest.mark.spec("U5")
async def test_events_of_a_queued_run_begin_when_a_worker_takes_it(house: House) -> None:
    client = house.as_()
    await house.agent.leave_jobs()
    run_id = (await client.post("/api/runs", json={"question": "answer me"})).json()["run_id"]
    reading = asyncio.create_task(read(client, run_id))
    await asyncio.sleep(0.1)
    assert not reading.done()
    await house.agent.take_jobs()
    assert ids(await reading) == [1, 2, 3, 4]


@pytest.mark.spec("I3")
async def test_events_of_another_persons_run_are_404(house: House) -> None:
    run_id = await begin(house, owner="bob")
    answer = await house.as_("alice").get(f"/api/runs/{run_id}/events")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.spec("U5")
async def test_events_reach_clients_of_every_replica(house: House) -> None:
    run_id = await begin(house)
    async with house.another_gateway() as other:
        reading = [asyncio.create_task(read(client, run_id)) for client in (house.as_(), house.as_(url=other.url))]
        await asyncio.sleep(0.2)
        await delta(house, run_id, 2)
        await house.agent.complete(run_id, "", [])
        assert [ids(await one) for one in reading] == [[1, 2, 3, 4]] * 2


@pytest.mark.spec("U5")
async def test_events_two_hundred_clients_are_served_from_one_subscription(house: House) -> None:
    run_id = await begin(house)
    client = house.as_()
    readers = [asyncio.create_task(read(client, run_id)) for _ in range(200)]
    await asyncio.sleep(2.0)
    subscriptions = len(house.gateway.app.state.connection.bus.client._subs)
    assert subscriptions <= 5
    began = time.monotonic()
    await delta(house, run_id, 5)
    await house.agent.complete(run_id, "", [])
    for reader in readers:
        assert ids(await reader) == list(range(1, 8))
    assert time.monotonic() - began < 5


async def test_events_client_that_stops_reading_is_let_go_and_can_come_back(house: House) -> None:
    """The client's socket takes nothing more, the server's buffers fill, its queue of 1000 events overflows."""
    run_id = await begin(house)
    reader, writer = await asyncio.open_connection("127.0.0.1", house.settings.gateway_port, limit=1024)
    request = f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.token()}\r\n\r\n"
    writer.write(request.encode())
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"200" in head
    hub = house.gateway.app.state.connection.hub
    assert len(hub._all()) == 1
    for _ in range(1100):
        await house.agent.append(run_id, "message-delta", {"text": "x" * 20_000})
    seats = hub._all()
    assert all(seat._queue.qsize() <= 1000 for seat in seats)
    got: set[int] = set()
    raw = b""
    async with asyncio.timeout(60):
        while chunk := await reader.read(1 << 20):
            raw += chunk
    got = {int(line[4:]) for line in raw.split(b"\n") if line.startswith(b"id: ")}
    assert raw.endswith(b"0\r\n\r\n")
    assert 1 <= max(got) < 1101
    assert got == set(range(1, max(got) + 1))
    writer.close()
    assert hub._all() == []
    await house.agent.complete(run_id, "", [])
    rest = await read(house.as_(), run_id, str(max(got)))
    assert ids(rest) == list(range(max(got) + 1, 1103))


async def test_events_client_that_leaves_frees_its_place(house: House) -> None:
    run_id = await begin(house)
    hub = house.gateway.app.state.connection.hub
    client = house.as_()
    await read(client, run_id, most=1)
    async with asyncio.timeout(3):
        while hub._all():
            await asyncio.sleep(0.02)


async def test_events_gateway_that_stops_ends_every_stream_promptly(house: House) -> None:
    run_id = await begin(house)
    async with house.another_gateway() as other:
        reading = [asyncio.create_task(read(house.as_(url=other.url), run_id)) for _ in range(5)]
        chat = asyncio.create_task(house.as_(url=other.url).post("/api/chat", json={"question": "hold"}))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await other.stop()
        assert time.monotonic() - began < 1.5
        assert [ids(await one) for one in reading] == [[1]] * 5
        answer = await chat
        assert (answer.status_code, answer.json()["status"]) == (202, "running")
