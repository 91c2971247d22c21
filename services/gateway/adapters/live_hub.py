"""Live events of runs: one subscription of the process, fanned out to bounded queues, one per waiting client.

A consumer on the server per client falls behind from a few dozen clients on; a dictionary look-up per event does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from placet.messaging.reading import Stored
from services.gateway.adapters.bus_runs import seen
from services.gateway.domain.runs import RunKey, RunSeen
from services.gateway.ports import Signal

QUEUE_SIZE = 1000


class HubSeat:
    """One client's queue. When it is full the seat is lost: the client comes back with `Last-Event-ID`."""

    def __init__(self, size: int) -> None:
        self._queue: asyncio.Queue[RunSeen | Signal] = asyncio.Queue(size)
        self._ended: Signal | None = None

    async def next(self, timeout_s: float) -> RunSeen | Signal:
        if self._ended and self._queue.empty():
            return self._ended
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queue.get()
        except TimeoutError:
            return self._ended or Signal.QUIET

    def offer(self, item: RunSeen | Signal) -> None:
        if self._ended:
            return
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            self._ended = Signal.LOST

    def end(self, signal: Signal) -> None:
        """Nothing more is offered; whoever waits is woken."""
        self._ended = self._ended or signal
        if not self._queue.full():
            self._queue.put_nowait(self._ended)


class LiveHub:
    def __init__(self, queue_size: int = QUEUE_SIZE) -> None:
        self._queue_size = queue_size
        self._seats: dict[RunKey, set[HubSeat]] = {}
        self._closed = False

    @contextmanager
    def join(self, key: RunKey) -> Iterator[HubSeat]:
        seat = HubSeat(self._queue_size)
        if self._closed:
            seat.end(Signal.CLOSED)
        seats = self._seats.setdefault(key, set())
        seats.add(seat)
        try:
            yield seat
        finally:
            seats.discard(seat)
            if not seats and self._seats.get(key) is seats:
                del self._seats[key]

    async def on_event(self, stored: Stored) -> None:
        """One event of any run of any tenant; without a seat in front of it, it costs a look-up."""
        seats = self._seats.get(RunKey(stored.tenant, stored.entity))
        event = seen(stored) if seats else None
        if seats and event:
            for seat in seats:
                seat.offer(event)

    async def recheck(self) -> None:
        """After a reconnection: what was published meanwhile is on the stream only."""
        for seat in self._all():
            seat.offer(Signal.RECHECK)

    def close(self) -> None:
        """End every stream of events, now and from now on: the process is about to stop."""
        self._closed = True
        for seat in self._all():
            seat.end(Signal.CLOSED)

    def _all(self) -> list[HubSeat]:
        return [seat for seats in self._seats.values() for seat in seats]
