"""Putting a run back while a part of the house is away. How long it has waited is kept beside it, not in memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from placet.contracts.errors import PlacetError
from placet.messaging.work_queue import RetryLater
from placet.observability import logs
from services.agent.domain.patience import NOT_WAITED, Waited
from services.agent.domain.run import Run
from services.agent.ports import Drive, RunControl

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    control: RunControl

    async def so_far(self, run: Run, attempt: int) -> Waited:
        """What the run has waited before. What it knows of calls that reached nobody holds for one drive: this one may
        deliver them, and die."""
        if attempt == 1:
            return NOT_WAITED
        waited = await self.control.waited_of(run.tenant, run.run_id)
        if waited.unreached:
            await self.control.keep_waited(run.tenant, run.run_id, replace(waited, unreached=frozenset()))
        return waited

    async def put_back(self, run: Run, drive: Drive, error: PlacetError) -> None:
        """Raises `RetryLater`; returns when the run has waited as long as it may."""
        if not drive.patient:
            return
        pause_s = drive.waited.pause_s(random.random())  # noqa: S311 - jitter
        waited = drive.waits(pause_s)
        await self.control.keep_waited(run.tenant, run.run_id, waited)
        log.info("run waits for a part that is away", run_id=run.run_id, code=error.code, tries=waited.tries)
        raise RetryLater(pause_s) from error

    async def renew(self, run: Run, drive: Drive) -> None:
        """A run that got on has its whole patience again."""
        if drive.waited.tries:
            await self.control.keep_waited(run.tenant, run.run_id, NOT_WAITED)
