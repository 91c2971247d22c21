"""Driving under a lease: who may, what happens when it fails, and when somebody cancels (U2, U6)."""

from __future__ import annotations

import asyncio

import pytest

from placet.messaging.work_queue import RetryLater
from services.agent.errors import AbandonedError, FencedError, LeaseLostError, NotParkedError
from tests.unit.agent_world import World, completes, hangs, parks


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
        raise RuntimeError("no such row in a database")

    world = World(broken)
    for _ in range(2):
        with pytest.raises(RuntimeError):
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
