"""Driving while a part of the house is away, and what a run leaves behind when it ends without having been answered."""

from __future__ import annotations

import pytest

from placet.contracts.digests import proposal_id_of
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.work_queue import RetryLater
from services.agent.adapters.graph.context import DriveContext
from services.agent.domain.limits import Limits
from services.agent.domain.patience import NOT_WAITED, Waited
from tests.unit.agent_world import RUN, World, completes, parks

OWN = proposal_id_of("acme", "alice", "run-1", "call-1")


class KilledError(BaseException):
    """The end of a worker, as far as a test in one process can have it."""


async def finds_nobody(world: World) -> bool:
    raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "nobody there")


@pytest.mark.spec("T4", "U2", "U3")
@pytest.mark.parametrize(
    "code", [ErrorCode.DEPENDENCY_UNAVAILABLE, ErrorCode.POLICY_UNAVAILABLE, ErrorCode.TIMEOUT], ids=str
)
async def test_run_that_finds_a_part_away_is_put_back_with_growing_pauses_and_no_failure(code: ErrorCode) -> None:
    async def away(world: World) -> bool:
        raise PlacetError(code, "away")

    world, pauses = World(away), []
    world.outage_s = 60.0
    for attempt in range(1, 9):
        with pytest.raises(RetryLater) as later:
            await world.drive(attempt)
        pauses.append(later.value.delay_s)
    assert (world.failures, world.held, world.kept.tries) == (0, False, 8)
    assert world.kept.seconds == pytest.approx(sum(pauses), abs=0.01)
    assert all(0.25 * 2**n <= pause <= 0.75 * 2**n for n, pause in enumerate(pauses[:5]))
    assert max(pauses) <= 15.0


@pytest.mark.spec("T4", "U3")
async def test_run_that_has_waited_as_long_as_it_may_ends_as_failed_at_once() -> None:
    world = World(finds_nobody)
    world.outage_s, world.kept = 60.0, Waited(9, 61.0)
    await world.drive(attempt=10)
    assert (world.record.finish_reason, world.failures, world.happened[-1]) == ("failed", 0, "forgotten")


@pytest.mark.spec("U2")
async def test_run_that_got_on_and_waits_for_people_has_its_whole_patience_again() -> None:
    world = World(parks)
    world.outage_s, world.kept = 60.0, Waited(3, 20.0)
    await world.drive(attempt=4)
    assert world.kept == NOT_WAITED


@pytest.mark.spec("U2", "R4")
async def test_run_that_has_parked_waits_for_people_although_nobody_can_look_at_its_evidence_now() -> None:
    world = World(parks)
    world.rests, world.unlooked = ("doc-a:v1:1",), PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "nobody there")
    await world.drive()
    assert (world.happened, world.record.completed) == (["run-started", "parked run-1"], False)


@pytest.mark.spec("U2")
async def test_waiting_for_a_part_that_is_away_is_not_counted_as_an_attempt() -> None:
    world = World(completes)
    world.kept = Waited(4, 20.0)
    await world.drive(attempt=6)
    assert world.attempts == [2]


@pytest.mark.spec("W9")
async def test_what_is_known_of_calls_that_reached_nobody_holds_for_one_drive_only() -> None:
    world, known = World(finds_nobody), Waited(1, 1.0, frozenset({"call-1"}))
    world.outage_s, world.kept = 60.0, known

    async def dies(world: World) -> bool:
        raise KilledError

    world.work = dies
    with pytest.raises(KilledError):
        await world.drive(attempt=2)
    assert world.waited == known
    assert world.kept == Waited(1, 1.0), "the drive that died may have delivered it"


@pytest.mark.spec("A10", "T4")
@pytest.mark.parametrize(
    "ends",
    [
        {"call_id": "call-1", "tool": "refund_payment", "status": "error", "code": "timeout"},
        {"call_id": "call-1", "tool": "refund_payment", "status": "error", "code": "outcome_unknown"},
        None,
    ],
    ids=["without an answer", "outcome unknown", "in the middle"],
)
async def test_proposal_that_an_ended_run_knows_nothing_of_is_taken_back_after_its_end(
    ends: dict[str, str] | None,
) -> None:
    async def gives_up(world: World) -> bool:
        await world.append("tool-proposed", {"call_id": "call-1", "tool": "refund_payment"})
        if ends:
            await world.append("tool-completed", ends)
        return await completes(world)

    world = World(gives_up)
    await world.drive()
    assert world.withdrawals == [(OWN, True)]
    assert world.happened.index("run-completed") < world.happened.index(f"withdrawn {OWN}")
    assert world.happened[-1] == "forgotten"


@pytest.mark.spec("A10")
async def test_run_that_knows_how_its_calls_ended_takes_nothing_back() -> None:
    async def knows(world: World) -> bool:
        for call, code in (("call-1", None), ("call-2", "permission_denied"), ("call-3", "conflict")):
            await world.append("tool-proposed", {"call_id": call, "tool": "refund_payment"})
            await world.append(
                "tool-completed", {"call_id": call, "status": "error", **({"code": code} if code else {})}
            )
        return await completes(world)

    world = World(knows)
    await world.drive()
    assert world.withdrawals == []


@pytest.mark.spec("A10")
async def test_run_that_cannot_take_back_what_it_left_yet_is_cleaned_up_later() -> None:
    async def gives_up(world: World) -> bool:
        await world.append("tool-proposed", {"call_id": "call-1", "tool": "refund_payment"})
        return await completes(world)

    world = World(gives_up)
    world.refuses = PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "approval is away")
    with pytest.raises(PlacetError):
        await world.drive()
    assert "forgotten" not in world.happened
    world.refuses = None
    await world.drive(attempt=2)
    assert (world.withdrawals, world.happened[-1]) == ([(OWN, True)], "forgotten")


@pytest.mark.spec("I2")
async def test_run_whose_grant_has_ended_is_cleaned_up_although_nothing_can_be_taken_back() -> None:
    async def gives_up(world: World) -> bool:
        await world.append("tool-proposed", {"call_id": "call-1", "tool": "refund_payment"})
        return await completes(world)

    world = World(gives_up)
    world.refuses = PlacetError(ErrorCode.UNAUTHENTICATED, "the grant has ended")
    await world.drive()
    assert world.happened[-1] == "forgotten"


@pytest.mark.spec("U3")
@pytest.mark.parametrize(
    ("waited", "active", "patient"),
    [(0.0, 0.0, True), (10.0, 0.0, True), (30.0, 0.0, False), (10.0, 50.0, True), (20.0, 80.0, False)],
    ids=["fresh", "not as long as it may", "as long as it may", "within its wall time", "beyond its wall time"],
)
def test_run_is_patient_within_its_outage_and_its_wall_time(waited: float, active: float, patient: bool) -> None:
    world = World(completes)
    limits = Limits(wall_s=100.0, outage_s=30.0)
    context = DriveContext(RUN, world, world, limits, usage={"active_s": active}, waited=Waited(1, waited))
    assert context.patient is patient
    assert context.lost_s >= 0.0
