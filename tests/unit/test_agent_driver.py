"""Driving under a lease: who may, what happens when it fails, and when somebody cancels (U2, U6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.events import Completed
from placet.contracts.runs import RunEvent, RunFinish
from placet.messaging.work_queue import RetryLater
from services.agent.domain.resume import Parked
from services.agent.domain.run import Place, Recorded, Run, RunRecord, advance
from services.agent.errors import AbandonedError, FencedError, LeaseLostError, NotParkedError
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
        self.drafts: list[Draft] = []
        self.looked_again: list[Parked] = []
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

    async def count_failure(self, tenant: str, run_id: str) -> int:
        self.failures += 1
        return self.failures

    async def park(self, tenant: str, parked: Parked) -> None:
        self.happened.append(f"parked {parked.run_id}")

    # rights
    async def look_again(self, run: Run, parked: Parked) -> None:
        self.looked_again.append(parked)

    # engine and drive
    def prepare(self, run: Run, log: RunLog, lease: Lease, completed: Completed | None) -> Any:
        return self

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

    async def withdraw(self, run: Run, proposal_id: str) -> bool:
        self.happened.append(f"withdrawn {proposal_id}")
        return True

    async def drive(self) -> None:
        await self.driver.drive(RUN, attempt=1)


async def parks(world: World) -> bool:
    return False


async def completes(world: World) -> bool:
    await world.append("run-completed", {"finish_reason": "success"})
    return True


async def hangs(world: World) -> bool:
    await asyncio.sleep(60)
    return True


@pytest.mark.spec("U2")
async def test_run_that_completes_is_cleaned_up_and_its_lease_released() -> None:
    world = World(completes)
    await world.drive()
    assert world.happened == ["run-started", "run-completed", "forgotten", "forgotten"]
    assert not world.held


@pytest.mark.spec("U2")
async def test_run_that_waits_for_people_keeps_its_checkpoints_and_gives_its_lease_back() -> None:
    world = World(parks)
    await world.drive()
    assert (world.happened, world.looked_again) == (["run-started", "parked run-1"], [])
    assert not world.held


@pytest.mark.spec("U4", "R4")
async def test_run_that_waits_and_rests_on_evidence_is_looked_at_again_once_it_can_be_found() -> None:
    world = World(parks)
    world.rests = ("doc-a:v1:1",)
    await world.drive()
    assert [parked.run_id for parked in world.looked_again] == ["run-1"]


@pytest.mark.spec("U4", "B5", "R4")
async def test_run_that_is_given_up_ends_with_its_last_words_and_nothing_left_open() -> None:
    async def abandoned(world: World) -> bool:
        await world.append("tool-proposed", {"call_id": "call-1", "tool": "refund_payment"})
        await world.append("run-waiting-for-human", {"proposal_id": "prop-1", "tool": "refund_payment"})
        raise AbandonedError(("owner_inactive",))

    world = World(abandoned)
    await world.drive()
    assert (world.record.finish_reason, world.drafts[0].answer) == ("refused", "last words")
    assert "withdrawn prop-1" in world.happened
    assert (world.happened[-1], world.failures, world.held) == ("forgotten", 0, False)


@pytest.mark.spec("U2")
async def test_run_driven_by_another_worker_is_left_for_later() -> None:
    world = World(completes)
    world.held = True
    with pytest.raises(RetryLater):
        await world.drive()
    assert world.happened == []


@pytest.mark.spec("U2")
async def test_completed_run_that_is_delivered_again_is_only_cleaned_up() -> None:
    world = World(completes)
    await world.drive()
    world.happened.clear()
    await world.drive()
    assert world.happened == ["forgotten", "forgotten"]


@pytest.mark.spec("U2")
@pytest.mark.parametrize("error", [FencedError("run-1"), LeaseLostError("run-1"), NotParkedError("prop-1")])
async def test_drive_that_is_out_of_date_is_left_for_later_and_counts_as_no_failure(error: Exception) -> None:
    async def stale(world: World) -> bool:
        raise error

    world = World(stale)
    with pytest.raises(RetryLater):
        await world.drive()
    assert (world.failures, world.held) == (0, False)


@pytest.mark.spec("U2")
async def test_lease_lost_in_the_middle_stops_the_drive() -> None:
    world = World(hangs)
    driving = asyncio.create_task(world.drive())
    await asyncio.sleep(0.05)
    world.lost.set()
    with pytest.raises(RetryLater):
        await driving
    assert world.happened == ["run-started"]


async def test_drive_that_keeps_failing_is_tried_again_and_then_ended_as_failed() -> None:
    async def broken(world: World) -> bool:
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "no database")

    world = World(broken)
    for _ in range(2):
        with pytest.raises(PlacetError):
            await world.drive()
    await world.drive()
    assert world.record.finish_reason == "failed"
    assert "database" not in world.drafts[0].answer


@pytest.mark.spec("U6")
async def test_cancel_while_driving_ends_the_run_and_says_what_was_done_before() -> None:
    world = World(hangs)
    driving = asyncio.create_task(world.drive())
    await asyncio.sleep(0.05)
    world.cancel_by = "alice"
    world.driver.wish_cancel("acme", "run-1")
    await asyncio.wait_for(driving, 5)
    assert world.record.finish_reason == "cancelled"
    assert world.drafts[0].answer == "This run was cancelled.\nA note was added."


@pytest.mark.spec("U6")
async def test_cancel_seen_only_in_the_bucket_ends_the_run_too() -> None:
    world = World(hangs)
    driving = asyncio.create_task(world.drive())
    await asyncio.sleep(0.05)
    world.cancel_by = "alice"
    await asyncio.wait_for(driving, 5)
    assert world.record.finish_reason == "cancelled"


@pytest.mark.spec("U6")
async def test_cancel_by_somebody_who_is_not_the_owner_is_ignored() -> None:
    world = World(parks)
    world.cancel_by = "bob"
    await world.drive()
    assert not world.record.completed


@pytest.mark.spec("U6")
async def test_cancel_that_comes_while_the_run_is_parking_is_not_lost() -> None:
    async def parks_while_cancelled(world: World) -> bool:
        await world.append("tool-proposed", {"call_id": "call-1", "tool": "refund_payment"})
        await world.append("run-waiting-for-human", {"proposal_id": "prop-1", "tool": "refund_payment"})
        world.cancel_by = "alice"
        return False

    world = World(parks_while_cancelled)
    await world.drive()
    assert world.record.finish_reason == "cancelled"
    assert "withdrawn prop-1" in world.happened


async def test_draining_driver_begins_nothing_new_and_stops_what_runs() -> None:
    world = World(hangs)
    driving = asyncio.create_task(world.drive())
    await asyncio.sleep(0.05)
    world.driver.drain()
    with pytest.raises(RetryLater):
        await world.drive()
    assert "drained" in world.happened
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert not world.held
