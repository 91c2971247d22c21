"""`GET /api/runs/{id}/events`: replay, live, gapless, bounded, ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from gateway_fake_agent import waiting_card
from gateway_rig import House, open_house
from gateway_streams import Frame, begin, delta, frames, ids, read, seats


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house(gateway_heartbeat_s=0.4) as opened:
        yield opened


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
        async with asyncio.timeout(60):
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
    async with house.another_gateway(gateway_heartbeat_s=15.0) as gateway:
        client = house.as_(url=gateway.url)
        readers = [asyncio.create_task(read(client, run_id)) for _ in range(200)]
        async with asyncio.timeout(60):
            while len(gateway.app.state.connection.hub._all()) < 200:
                await asyncio.sleep(0.05)
        subscriptions = gateway.app.state.connection.bus.client._subs.values()
        assert [one.subject for one in subscriptions if one.subject.startswith("stored.")] == [
            "stored.placet.*.agent.evt.>"
        ]
        await delta(house, run_id, 5)
        await house.agent.complete(run_id, "", [])
        assert [ids(await reader) for reader in readers] == [list(range(1, 8))] * 200


@pytest.mark.spec("U5", "T7", "T13")
async def test_waiting_card_is_metadata_only_whatever_the_event_holds(house: House) -> None:
    run_id = await begin(house)
    await house.agent.append(run_id, "run-waiting-for-human", {**waiting_card(), "preview": "what approval releases"})
    alice = house.as_()
    (_, waiting) = await read(alice, run_id, most=2)
    assert (waiting.data or {})["data"] == waiting_card()
    shown = (await alice.get(f"/api/runs/{run_id}")).json()
    assert shown["approval"] == {**waiting_card(), "decision": None}
    await house.agent.complete(run_id, "", [])


@pytest.mark.spec("U5")
async def test_client_that_disconnects_cancels_nothing_and_finds_the_run_going_on(house: House) -> None:
    run_id = await begin(house)
    client = house.as_()
    cancelled = house.agent.count("cancel-run")
    assert ids(await read(client, run_id, most=1)) == [1]
    async with asyncio.timeout(30):
        while seats(house, run_id):
            await asyncio.sleep(0.02)
    await delta(house, run_id)
    assert (await client.get(f"/api/runs/{run_id}")).json()["status"] == "running"
    assert house.agent.count("cancel-run") == cancelled
    await client.post(f"/api/runs/{run_id}/cancel")
    assert house.agent.count("cancel-run") == cancelled + 1
    rest = await read(client, run_id, "1")
    assert [one.event for one in rest] == ["message.delta", "run.completed"]
