"""Runs on the bus: the queue in front of the agents, and the events they append."""

from __future__ import annotations

import asyncio

import nats.errors
from pydantic import ValidationError

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.runs import SSE_TYPES, RunEvent, StartRun
from placet.identity.grants import GrantVerifier, Purpose
from placet.messaging import wire
from placet.messaging.append import MESSAGE_ID
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader, Stored
from placet.observability import logs
from placet.observability.context import current
from services.gateway.domain.runs import QueuedRun, RunKey, RunRecord, RunSeen, in_order

log = logs.get(__name__)

OWNER = "agent"
_START = "start-run"
_TRIES = 3
_TRY_TIMEOUT_S = 2.0


def seen(stored: Stored) -> RunSeen | None:
    """A stored event as an event of a run; None for one that does not fit the contract."""
    if stored.name not in SSE_TYPES:
        return None
    try:
        event = RunEvent.model_validate(stored.envelope.data)
    except ValidationError:
        log.warning("an event of a run does not fit its contract", subject=stored.subject, position=stored.seq)
        return None
    return RunSeen(stored.seq, stored.name, stored.envelope.time, event)


class BusRuns:
    def __init__(self, bus: Bus, grants: GrantVerifier) -> None:
        self._bus = bus
        self._grants = grants
        self._events = EventReader(bus, "RUNS")
        self._queue = EventReader(bus, "RUN_QUEUE")

    async def start(self, tenant: str, command: StartRun) -> None:
        # The message id is the run's: a repeat within the stream's window is dropped by the server, a later one is
        # recognized by the worker, which finds the run already there.
        message_id = f"{tenant}:{command.run_id}"
        payload = wire.encode(
            message_id=message_id,
            source="placet/gateway",
            type_=f"placet.{OWNER}.{_START}.v1",
            subject=command.run_id,
            context=current(),
            tenant=tenant,
            data=command,
        )
        subject = subjects.command(tenant, OWNER, _START, command.run_id)
        for attempt in range(1, _TRIES + 1):
            try:
                await self._bus.js.publish(subject, payload, headers={MESSAGE_ID: message_id}, timeout=_TRY_TIMEOUT_S)
                return
            except (nats.errors.Error, TimeoutError) as error:
                if attempt == _TRIES:
                    raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The run could not be queued.") from error
                await asyncio.sleep(0.1 * attempt)

    async def record(self, key: RunKey) -> RunRecord:
        filter_ = subjects.entity(key.tenant, OWNER, subjects.token(key.run_id))
        last, queued = await asyncio.gather(self._events.last_of_each([filter_]), self._queued(key))
        return RunRecord(in_order(one for event in last if (one := seen(event))), queued)

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
