"""A run's events on the RUNS stream: read and folded, appended by compare-and-set."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from placet.contracts.envelope import now
from placet.contracts.runs import RunEvent
from placet.messaging.append import Appender, ConflictError, NewEvent
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader, Stored
from services.agent.domain.limits import Limits, Usage
from services.agent.domain.run import Place, Recorded, Run, RunRecord, advance, at_least, fold
from services.agent.errors import FencedError

OWNER = "agent"
STREAM = "RUNS"


class StreamRunLogs:
    """Implements `RunLogs`."""

    def __init__(self, bus: Bus, limits: Limits) -> None:
        self._appender = Appender(bus, OWNER, STREAM)
        self._reader = EventReader(bus, STREAM)
        self._limits = limits

    async def read(self, tenant: str, run_id: str) -> RunRecord:
        return fold(_recorded(event) for event in await self._reader.entity(tenant, OWNER, run_id))

    async def open(self, run: Run, *, epoch: int, attempt: int) -> StreamRunLog:
        record = await self.read(run.tenant, run.run_id)
        return StreamRunLog(self._appender, run, record, self._limits, epoch, attempt)


class StreamRunLog:
    """Implements `RunLog`. Tool calls that run side by side append in turn."""

    def __init__(
        self, appender: Appender, run: Run, record: RunRecord, limits: Limits, epoch: int, attempt: int
    ) -> None:
        self._appender = appender
        self._run = run
        self._record = record
        self._limits = limits
        self._epoch = epoch
        self._attempt = attempt
        self._place = Place()
        self._turn = asyncio.Lock()

    @property
    def record(self) -> RunRecord:
        return self._record

    def at(self, place: Place) -> None:
        self._place = place

    async def append(self, name: str, data: dict[str, Any], rests_on: Sequence[str] = ()) -> bool:
        async with self._turn:
            if self._record.has(name, data):
                return False
            if self._record.completed or self._record.epoch > self._epoch:
                raise FencedError(self._run.run_id)
            event = self._event(name, data, rests_on)
            try:
                # No message id of its own making: two workers at the same sequence must not look like one.
                appended = await self._appender.append(
                    self._run.tenant, NewEvent(name, self._run.run_id, event), self._record.last_seq
                )
            except ConflictError as error:
                raise FencedError(self._run.run_id) from error
            self._record = advance(self._record, Recorded(appended.seq, name, event))
            return True

    def _event(self, name: str, data: dict[str, Any], rests_on: Sequence[str]) -> RunEvent:
        usage = Usage.of(self._place.usage)
        return RunEvent(
            run_id=self._run.run_id,
            seq=self._record.seq + 1,
            owner=self._run.owner,
            conversation_id=self._run.conversation_id,
            data=data,
            node=self._place.node or self._record.node,
            attempt=self._attempt,
            epoch=self._epoch,
            budget=at_least(usage.as_budget(self._limits), self._record.budget),
            limits=self._limits.as_facts(),
            started_at=self._record.started_at or now().isoformat(),
            rests_on=tuple(rests_on),
            active_s=max(usage.active_s, self._record.active_s),
            waits_for=self._record.waits_after(name, data),
        )


def _recorded(event: Stored) -> Recorded:
    return Recorded(event.seq, event.name, RunEvent.model_validate(event.envelope.data))
