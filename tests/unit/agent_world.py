"""Everything around a driver of runs, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from placet.contracts.errors import PlacetError
from placet.contracts.events import Completed
from placet.contracts.runs import RunEvent, RunFinish
from services.agent.domain.patience import NOT_WAITED, Waited
from services.agent.domain.resume import Parked
from services.agent.domain.run import Place, Recorded, Run, RunRecord, advance
from services.agent.handlers.driver import Driver
from services.agent.ports import Draft, Lease, RunLog

RUN = Run("acme", "run-1", "alice", "conv-1", "refund A1001 299", "grant", "req-1")


class World:
    """Everything around a driver, in memory, with a record of what happened."""

    def __init__(self, work: Callable[[World], Awaitable[bool]]) -> None:
        self.work = work
        self.happened: list[str] = []
        self.record = RunRecord()
        self.held = False
        self.lost = asyncio.Event()
        self.cancel_by: str | None = None
        self.failures = 0
        self.kept = Waited()
        self.outage_s = 0.0
        self.withdrawals: list[tuple[str, bool]] = []
        self.refuses: PlacetError | None = None
        self.drafts: list[Draft] = []
        self.looked_again: list[Parked] = []
        self.unlooked: PlacetError | None = None
        self.attempts: list[int] = []
        self.driver = Driver(self, self, self, self, self, self, self, max_failures=3)

    # leases and the lease
    epoch = 1
    rests: tuple[str, ...] = ()

    async def acquire(self, tenant: str, run_id: str) -> Any:
        if self.held:
            return None
        self.held = True
        return self

    def check(self) -> None:
        return

    async def wait_lost(self) -> None:
        await self.lost.wait()

    async def release(self) -> None:
        self.held = False

    # the log
    async def read(self, tenant: str, run_id: str) -> RunRecord:
        return self.record

    async def open(self, run: Run, *, epoch: int, attempt: int) -> Any:
        self.attempts.append(attempt)
        return self

    def at(self, place: Place) -> None:
        return

    async def append(self, name: str, data: dict[str, Any], rests_on: Sequence[str] = ()) -> bool:
        if self.record.has(name, data):
            return False
        event = RunEvent(run_id="run-1", seq=self.record.seq + 1, owner="alice", conversation_id="c", data=data)
        self.record = advance(self.record, Recorded(self.record.last_seq + 1, name, event))
        self.happened.append(name)
        return True

    # control
    async def remember(self, run: Run) -> None:
        return

    async def recall(self, tenant: str, run_id: str) -> Run | None:
        return RUN

    async def request_cancel(self, tenant: str, run_id: str, by: str) -> None:
        self.cancel_by = by

    async def cancel_requested_by(self, tenant: str, run_id: str) -> str | None:
        return self.cancel_by

    async def waited_of(self, tenant: str, run_id: str) -> Waited:
        return self.kept

    async def keep_waited(self, tenant: str, run_id: str, waited: Waited) -> None:
        self.kept = waited

    async def count_failure(self, tenant: str, run_id: str) -> int:
        self.failures += 1
        return self.failures

    async def park(self, tenant: str, parked: Parked) -> None:
        self.happened.append(f"parked {parked.run_id}")

    # rights
    async def look_again(self, run: Run, parked: Parked) -> None:
        if self.unlooked:
            raise self.unlooked
        self.looked_again.append(parked)

    # engine and drive
    def prepare(
        self, run: Run, log: RunLog, lease: Lease, completed: Completed | None, waited: Waited = NOT_WAITED
    ) -> Any:
        self.waited = waited
        return self

    waited = NOT_WAITED

    @property
    def patient(self) -> bool:
        return self.waited.seconds < self.outage_s

    def waits(self, pause_s: float) -> Waited:
        return self.waited.more(pause_s, frozenset({"call-1"}))

    async def run(self) -> bool:
        return await self.work(self)

    def drain(self) -> None:
        self.happened.append("drained")

    async def abandon(self, timeout_s: float) -> list[str]:
        return []

    def parked(self) -> Parked:
        return Parked("run-1", "alice", "business_action", {"prop-1": self.rests})

    async def last_words(self, reasons: tuple[str, ...]) -> Draft:
        return Draft(RunFinish.REFUSED, "last words")

    async def done_so_far(self) -> list[str]:
        return ["A note was added."]

    async def forget(self, tenant: str, run_id: str) -> None:
        self.happened.append("forgotten")
        self.cancel_by = None

    # ending and proposals
    async def complete(self, run: Run, log: RunLog, draft: Draft) -> None:
        self.drafts.append(draft)
        await self.append("run-completed", {"finish_reason": draft.finish.value})

    async def withdraw(self, run: Run, proposal_id: str, *, leave: bool = False) -> bool:
        if self.refuses:
            raise self.refuses
        self.happened.append(f"withdrawn {proposal_id}")
        self.withdrawals.append((proposal_id, leave))
        return True

    async def drive(self, attempt: int = 1) -> None:
        await self.driver.drive(RUN, attempt=attempt)


async def parks(world: World) -> bool:
    return False


async def completes(world: World) -> bool:
    await world.append("run-completed", {"finish_reason": "success"})
    return True


async def hangs(world: World) -> bool:
    await asyncio.sleep(60)
    return True
