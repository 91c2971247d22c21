"""Runs on the bus: the queue in front of the agents, and the events they append."""

from __future__ import annotations

import asyncio
import time

from pydantic import ValidationError

from placet.contracts import subjects
from placet.contracts.errors import PlacetError
from placet.contracts.runs import SSE_TYPES, RunEvent, StartRun
from placet.identity.grants import GrantVerifier, Purpose
from placet.messaging.command_queue import CommandQueue
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader, Stored
from placet.observability import logs
from services.gateway.domain.runs import QueuedRun, RunKey, RunRecord, RunSeen, in_order

log = logs.get(__name__)

OWNER = "agent"
_START = "start-run"


def seen(stored: Stored) -> RunSeen | None:
    """A stored event as an event of a run; None for one that does not fit the contract."""
    if stored.name not in SSE_TYPES:
        return None
    try:
        event = RunEvent.model_validate(stored.envelope.data)
    except ValidationError:
        log.warning("an event of a run does not fit its contract", subject=stored.subject, position=stored.seq)
        return None
    return RunSeen(stored.seq, stored.name, stored.envelope.time, event, time.monotonic())


class BusRuns:
    def __init__(self, bus: Bus, grants: GrantVerifier) -> None:
        self._starts = CommandQueue(bus)
        self._grants = grants
        self._events = EventReader(bus, "RUNS")
        self._queue = EventReader(bus, "RUN_QUEUE")

    async def start(self, tenant: str, command: StartRun) -> None:
        # A repeat within the queue's window is dropped by the server; a later one is recognized by the worker, which
        # finds the run already there.
        await self._starts.put(tenant, OWNER, _START, command.run_id, command)

    async def record(self, key: RunKey) -> RunRecord:
        filter_ = subjects.entity(key.tenant, OWNER, subjects.token(key.run_id))
        last, queued = await asyncio.gather(self._events.last_of_each([filter_]), self._queued(key))
        record = RunRecord(in_order(one for event in last if (one := seen(event))), queued)
        # Only a run that waits for several people at once has more to tell than the last event of each name.
        return record if record.tells_all else RunRecord(in_order(await self.after(key, 0)), queued)

    async def after(self, key: RunKey, position: int) -> list[RunSeen]:
        events = await self._events.entity(key.tenant, OWNER, key.run_id, after=position)
        return [one for event in events if (one := seen(event))]

    async def _queued(self, key: RunKey) -> QueuedRun | None:
        subject = subjects.command(key.tenant, OWNER, _START, subjects.token(key.run_id))
        waiting = await self._queue.page(subject, after=0, limit=1)
        if not waiting:
            return None
        envelope = waiting[0].envelope
        try:
            command = StartRun.model_validate(envelope.data)
            grant = self._grants.verify(command.grant, key.tenant, purpose=Purpose.RUN, run_id=key.run_id)
        except (ValidationError, PlacetError):
            log.warning("a queued run carries no valid grant", run_id=key.run_id)
            return None
        return QueuedRun(key.run_id, grant.actor, envelope.time)
