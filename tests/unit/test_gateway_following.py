"""Following a run through every way in which live events and the stream can disagree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.runs import RunEvent, StartRun
from services.gateway.adapters.live_hub import HubSeat
from services.gateway.domain.runs import RunKey, RunRecord, RunSeen
from services.gateway.handlers.following import Follower
from services.gateway.ports import Signal

KEY = RunKey("acme", "run-1")
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LAST = 6


def event(seq: int) -> RunSeen:
    data = RunEvent(run_id="run-1", seq=seq, owner="alice", conversation_id="c", data={})
    return RunSeen(seq + 1000, "run-completed" if seq == LAST else "message-delta", NOON, data)


class World:
    """A stream and a live side that a test moves by hand; a client of the live side's real seat."""

    def __init__(self, seat_size: int = 100) -> None:
        self.stored: list[RunSeen] = []
        self.away = False
        self.seats: list[HubSeat] = []
        self.reads: list[int] = []
        self._seat_size = seat_size

    async def after(self, key: RunKey, position: int) -> list[RunSeen]:
        assert key == KEY
        self.reads.append(position)
        if self.away:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "away")
        return [one for one in self.stored if one.position > position]

    async def start(self, tenant: str, command: StartRun) -> None:
        raise NotImplementedError

    async def record(self, key: RunKey) -> RunRecord:
        raise NotImplementedError

    @contextmanager
    def join(self, key: RunKey) -> Iterator[HubSeat]:
        assert key == KEY
        seat = HubSeat(self._seat_size)
        self.seats.append(seat)
        try:
            yield seat
        finally:
            self.seats.remove(seat)

    def append(self, *seqs: int, live: bool = True) -> None:
        for seq in seqs:
            self.stored.append(event(seq))
            if live:
                self.publish(seq)

    def publish(self, seq: int) -> None:
        self.tell(event(seq))

    def tell(self, item: RunSeen | Signal) -> None:
        for seat in self.seats:
            seat.offer(item)


class Client:
    """Reads in the background, so that a test can do something in between."""

    def __init__(self, world: World, after: int = 0, heartbeat_s: float = 30.0) -> None:
        self.got: list[int] = []
        self.beats = 0
        self._follower = Follower(world, world, heartbeat_s)
        self.task = asyncio.create_task(self._read(after))

    async def _read(self, after: int) -> None:
        async with aclosing(self._follower.follow(KEY, after)) as run:
            async for seen in run:
                if seen is None:
                    self.beats += 1
                else:
                    self.got.append(seen.seq)

    async def has(self, *seqs: int) -> None:
        async with asyncio.timeout(30):
            while self.got != list(seqs):
                await asyncio.sleep(0.005)

    async def ends(self) -> list[int]:
        await asyncio.wait_for(self.task, 30)
        return self.got


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.tell(Signal.CLOSED)


@pytest.mark.spec("U5")
async def test_follow_stored_then_live_events_comes_without_gap_or_repeat(world: World) -> None:
    world.append(1, 2, live=False)
    client = Client(world)
    await client.has(1, 2)
    world.publish(2)
    world.append(3, 4, 5, LAST)
    assert await client.ends() == [1, 2, 3, 4, 5, 6]
    assert world.seats == []


@pytest.mark.spec("U5")
async def test_follow_after_an_id_replays_only_what_was_missed(world: World) -> None:
    world.append(1, 2, 3, 4, 5, LAST, live=False)
    assert await Client(world, after=4).ends() == [5, 6]


async def test_follow_run_that_ended_before_the_given_id_ends_at_once(world: World) -> None:
    world.append(1, 2, 3, 4, 5, LAST, live=False)
    assert await Client(world, after=LAST).ends() == []


@pytest.mark.parametrize("stored", [[], [1, 2]])
async def test_follow_after_an_id_beyond_the_run_starts_from_the_start(world: World, stored: list[int]) -> None:
    world.append(*stored, live=False)
    client = Client(world, after=500)
    await client.has(*stored)
    world.append(*range(len(stored) + 1, LAST + 1))
    assert await client.ends() == [1, 2, 3, 4, 5, 6]


async def test_follow_live_event_lost_on_the_way_is_read_from_the_stream(world: World) -> None:
    client = Client(world)
    world.append(1)
    await client.has(1)
    world.append(2, 3, live=False)
    world.append(4)
    await client.has(1, 2, 3, 4)
    assert world.reads[-1] == event(1).position


async def test_follow_stream_that_lags_behind_the_live_side_is_looked_at_again(world: World) -> None:
    client = Client(world)
    world.append(1)
    await client.has(1)
    world.publish(3)
    await asyncio.sleep(0.05)
    assert client.got == [1]
    world.append(2, 3, live=False)
    await client.has(1, 2, 3)
    assert client.beats == 0


async def test_follow_after_a_reconnection_reads_what_was_published_meanwhile(world: World) -> None:
    client = Client(world)
    world.append(1)
    await client.has(1)
    world.append(2, 3, live=False)
    world.tell(Signal.RECHECK)
    await client.has(1, 2, 3)


async def test_follow_silent_live_side_finds_stored_events_at_the_heartbeat(world: World) -> None:
    client = Client(world, heartbeat_s=0.05)
    world.append(1)
    await client.has(1)
    world.append(2, live=False)
    await client.has(1, 2)
    assert client.beats >= 1


async def test_follow_stream_that_is_away_keeps_the_client_and_catches_up(world: World) -> None:
    world.append(1, 2, live=False)
    world.away = True
    client = Client(world, heartbeat_s=0.05)
    await asyncio.sleep(0.12)
    assert client.got == []
    world.away = False
    await client.has(1, 2)


async def test_follow_client_too_slow_for_its_queue_is_let_go_after_what_it_has() -> None:
    world = World(seat_size=2)
    async with aclosing(Follower(world, world, 30.0).follow(KEY)) as run:
        world.append(1, live=False)
        first = await anext(run)
        world.append(2, 3, 4, 5)
        rest = [seen.seq async for seen in run if seen]
    assert first is not None
    assert [first.seq, *rest] == [1, 2, 3]
    assert world.seats == []


async def test_follow_gateway_that_stops_ends_the_stream_promptly(world: World) -> None:
    client = Client(world)
    world.append(1)
    await client.has(1)
    world.seats[0].end(Signal.CLOSED)
    assert await asyncio.wait_for(client.ends(), 1) == [1]


async def test_follow_client_that_leaves_gives_up_its_seat(world: World) -> None:
    client = Client(world)
    world.append(1)
    await client.has(1)
    client.task.cancel()
    await asyncio.gather(client.task, return_exceptions=True)
    assert world.seats == []
