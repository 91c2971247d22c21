"""Driving a run under its lease until it completes, waits for people, or has to be left to another worker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from placet.contracts.digests import proposal_id_of
from placet.contracts.errors import PlacetError
from placet.contracts.events import Completed
from placet.contracts.runs import RunFinish
from placet.messaging.work_queue import RetryLater
from placet.observability import logs
from placet.observability.context import bound, current
from services.agent.domain import answers
from services.agent.domain.patience import AWAY
from services.agent.domain.run import Run, RunRecord
from services.agent.errors import AbandonedError, DrainedError, FencedError, LeaseLostError, NotParkedError
from services.agent.handlers.patience import Patience
from services.agent.handlers.rights import Rights
from services.agent.ports import Draft, Drive, Ending, Engine, Lease, Leases, Proposals, RunControl, RunLog, RunLogs

log = logs.get(__name__)

_BUSY_S = 1.0
_AGAIN_S = 0.5
_MOST_PATIENCE_S = 10
_WISH_POLL_S = 0.5
_ABANDON_S = 2.0


class _CancelWishedError(Exception):
    """The owner wants this run to end."""


@dataclass(slots=True)
class Driver:
    """One per process. Raises `RetryLater` where the job should be handed out again."""

    leases: Leases
    logs: RunLogs
    control: RunControl
    engine: Engine
    ending: Ending
    proposals: Proposals
    rights: Rights
    max_failures: int = 6
    _wishes: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    _drives: set[Drive] = field(default_factory=set)
    _draining: bool = False

    @property
    def _patience(self) -> Patience:
        return Patience(self.control)

    async def drive(self, run: Run, *, attempt: int, completed: Completed | None = None) -> None:
        """Drive `run` as far as it goes now; with `completed`, from the decision it waits for."""
        if self._draining:
            raise RetryLater(_AGAIN_S)
        lease = await self.leases.acquire(run.tenant, run.run_id)
        if lease is None:
            raise RetryLater(_BUSY_S)
        try:
            with bound(replace(current(), request_id=run.request_id, tenant=run.tenant, actor=run.owner)):
                await self._under_lease(run, lease, attempt, completed)
        except (LeaseLostError, FencedError, DrainedError) as error:
            log.info("run left to another drive", run_id=run.run_id, why=type(error).__name__)
            raise RetryLater(_AGAIN_S) from error
        except NotParkedError as error:
            raise RetryLater(min(attempt, _MOST_PATIENCE_S)) from error
        finally:
            await lease.release()
        # A wish that came while this drive was parking found the lease taken, so it is looked for once more.
        if await self._wished(run):
            await self.cancel_parked(run)

    async def cancel_parked(self, run: Run) -> None:
        """End a run that waits, for people or for a part that is away. One that is being driven, or is still queued,
        ends by its driver."""
        lease = await self.leases.acquire(run.tenant, run.run_id)
        if lease is None:
            return
        try:
            run_log = await self.logs.open(run, epoch=lease.epoch, attempt=1)
            if run_log.record.started and not run_log.record.completed:
                drive = self.engine.prepare(run, run_log, lease, None)
                await self._clean(run, run_log.record, await self._cancel(run, run_log, drive))
        except (FencedError, LeaseLostError):
            log.info("a cancel was overtaken", run_id=run.run_id)
        finally:
            await lease.release()

    def wish_cancel(self, tenant: str, run_id: str) -> None:
        """Tell the drive of this run at once, if it is driven here. Other workers see the wish in the bucket."""
        if wish := self._wishes.get((tenant, run_id)):
            wish.set()

    def drain(self) -> None:
        """Begin nothing new and stop every drive before its next node."""
        self._draining = True
        for drive in self._drives:
            drive.drain()

    async def _under_lease(self, run: Run, lease: Lease, attempt: int, completed: Completed | None) -> None:
        waited = await self._patience.so_far(run, attempt)
        attempt = max(1, attempt - waited.tries)  # waiting for a part that is away is no attempt
        run_log = await self.logs.open(run, epoch=lease.epoch, attempt=attempt)
        withdrawn: set[str] = set()
        if not run_log.record.completed:
            await run_log.append("run-started", {"run_id": run.run_id, "conversation_id": run.conversation_id})
            drive = self.engine.prepare(run, run_log, lease, completed, waited)
            try:
                if await self._wished(run):
                    raise _CancelWishedError
                if not await self._raced(run, drive, lease):
                    await self._park(run, drive)
                    return
            except _CancelWishedError:
                # What the interrupted drive has appended last is not known here: read again.
                run_log = await self.logs.open(run, epoch=lease.epoch, attempt=attempt)
                withdrawn |= await self._cancel(run, run_log, drive)
            except AbandonedError as abandoned:
                log.info("run abandoned", run_id=run.run_id, why=abandoned.reasons)
                withdrawn |= (await self._withdraw(run, run_log, drive)).keys()
                await self.ending.complete(run, run_log, await drive.last_words(abandoned.reasons))
            except (LeaseLostError, FencedError, DrainedError, NotParkedError):
                raise
            except Exception as error:
                await self._tolerate(run, drive, error)
                log.exception("run given up", run_id=run.run_id)
                run_log = await self.logs.open(run, epoch=lease.epoch, attempt=attempt)
                draft = Draft(RunFinish.FAILED, answers.ending(RunFinish.FAILED, run.language))
                await self.ending.complete(run, run_log, draft)
        await self._clean(run, run_log.record, withdrawn)

    async def _raced(self, run: Run, drive: Drive, lease: Lease) -> bool:
        """The drive, unless its lease is lost or its owner wants it to end first."""
        working = asyncio.create_task(drive.run())
        lost = asyncio.create_task(lease.wait_lost())
        wish = asyncio.create_task(self._wait_wish(run))
        self._drives.add(drive)
        wished = False
        try:
            await asyncio.wait({working, lost, wish}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            wished = wish.done()
        finally:
            self._drives.discard(drive)
            await _put_down(working, lost, wish)
            if not wished:
                await drive.abandon(0)
        if wished:
            raise _CancelWishedError
        raise LeaseLostError(run.run_id)

    async def _wait_wish(self, run: Run) -> None:
        key = (run.tenant, run.run_id)
        wish = self._wishes.setdefault(key, asyncio.Event())
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WISH_POLL_S):
                        await wish.wait()
                with suppress(PlacetError):  # the bus is away: the lease decides how long that may last
                    if await self._wished(run):
                        return
                wish.clear()
        finally:
            self._wishes.pop(key, None)

    async def _wished(self, run: Run) -> bool:
        return await self.control.cancel_requested_by(run.tenant, run.run_id) == run.owner

    async def _cancel(self, run: Run, run_log: RunLog, drive: Drive) -> set[str]:
        """Withdraw what is still open, say what was done before, and complete. Returns what needs no second look."""
        if run_log.record.completed:
            return set()
        withdrawn = await self._withdraw(run, run_log, drive)
        told = [answers.ending(RunFinish.CANCELLED, run.language), *await drive.done_so_far()]
        if not all(withdrawn.values()):
            told.append(answers.still_decided(run.language))
        await self.ending.complete(run, run_log, Draft(RunFinish.CANCELLED, "\n".join(told)))
        return set(withdrawn)

    async def _withdraw(self, run: Run, run_log: RunLog, drive: Drive) -> dict[str, bool]:
        """Of everything that is open, whether it could be withdrawn."""
        proposals = [*run_log.record.waiting, *await drive.abandon(_ABANDON_S)]
        return {one: await self.proposals.withdraw(run, one, leave=True) for one in dict.fromkeys(proposals)}

    async def _park(self, run: Run, drive: Drive) -> None:
        """Let the run be found when rights change; and look once more, for a change that came while it was parking.

        Where that cannot be asked now, the executor asks before it executes.
        """
        parked = drive.parked()
        await self.control.park(run.tenant, parked)
        await self._patience.renew(run, drive)
        if parked.chunks:
            try:
                await self.rights.look_again(run, parked)
            except PlacetError as error:
                log.warning("a parked run was not looked at again", run_id=run.run_id, code=error.code)

    async def _tolerate(self, run: Run, drive: Drive, error: Exception) -> None:
        """Returns when a run that fails must end, too. Else raises, to be called again: after a pause while a part of
        the house is away and the run may wait for it, which is no failure."""
        if isinstance(error, PlacetError) and error.code in AWAY:
            await self._patience.put_back(run, drive, error)
        elif await self.control.count_failure(run.tenant, run.run_id) < self.max_failures:
            raise error

    async def _clean(self, run: Run, record: RunRecord, withdrawn: Collection[str] = ()) -> None:
        """Nothing of a completed run is needed any more: neither what it left open, nor its checkpoints, nor its grant.

        What it left open is taken back after its end was told, so that a proposal that is made even later meets that.
        """
        late = [proposal_id_of(run.tenant, run.owner, run.run_id, call) for call in sorted(record.unaccounted)]
        for proposal_id in dict.fromkeys([*record.waiting, *late]):
            try:
                if proposal_id not in withdrawn:
                    await self.proposals.withdraw(run, proposal_id, leave=True)
            except PlacetError as error:
                if error.retryable:
                    raise
                log.info("nothing can be taken back in the name of this run", run_id=run.run_id, code=error.code)
        await self.engine.forget(run.tenant, run.run_id)
        await self.control.forget(run.tenant, run.run_id)


async def _put_down(*tasks: asyncio.Task[Any]) -> None:
    """Cancel until they have really ended: before Python 3.12, `wait_for` may swallow a cancellation that comes
    together with the result it waits for, and a loop around it would go on for ever."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_ABANDON_S)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at, so that it is not reported as forgotten
