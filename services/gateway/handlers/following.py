"""Following a run: its stored events from a given point on, then the live ones, without a gap and without a repeat.

The place among the live events is taken first and the stream is read after that, so nothing falls in between. Whatever
the live side may have missed (a reconnection, a full buffer on the server) is read from the stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from placet.contracts.errors import PlacetError
from placet.observability import logs
from services.gateway.domain.event_stream import Arrival, Progress
from services.gateway.domain.runs import RunKey, RunSeen
from services.gateway.ports import Live, Runs, Signal

log = logs.get(__name__)

# A replica that answers reads may lag behind the live events by a moment.
_SOON_S = 0.25


@dataclass(frozen=True, slots=True)
class Follower:
    runs: Runs
    live: Live
    heartbeat_s: float

    async def follow(self, key: RunKey, after: int = 0) -> AsyncGenerator[RunSeen | None, None]:
        """Events after `after`, up to the last one; None whenever nothing came for `heartbeat_s`.

        Ends early, without an error, when this client is too slow or the gateway stops: it can be taken up again.
        """
        progress = Progress(after)
        look = True
        with self.live.join(key) as seat:
            while True:
                for seen in await self._stored(key, progress) if look else ():
                    if progress.judge_stored(seen) is Arrival.NEXT:
                        yield seen
                    if seen.final:
                        return
                item = await seat.next(_SOON_S if progress.behind else self.heartbeat_s)
                if item is Signal.LOST or item is Signal.CLOSED:
                    return
                if isinstance(item, RunSeen):
                    arrival = progress.judge_live(item)
                    look = arrival is Arrival.AHEAD
                    if arrival is Arrival.NEXT:
                        yield item
                        if item.final:
                            return
                    continue
                look = True
                if item is Signal.QUIET and not progress.behind:
                    yield None

    async def _stored(self, key: RunKey, progress: Progress) -> list[RunSeen]:
        """What is on the stream beyond the client's position. While the bus is away: nothing, and a later look."""
        try:
            events = await self.runs.after(key, progress.position)
        except PlacetError as error:
            log.warning("cannot read a run's events", run_id=key.run_id, code=error.code.value)
            return []
        progress.settle_start(events[-1].seq if events else 0)
        return events
