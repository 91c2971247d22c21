"""Surfacing: who proposes and the reaction to `proposed` come at the same moment, and one announcement is stored."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import pytest

from placet.audit.trail import AuditTrail
from placet.contracts.envelope import Event, now
from placet.contracts.proposals import Caller, FinishReason
from placet.testkit.builders import origin, proposed
from services.approval.domain.state import Proposal, Recorded, advance, fold
from services.approval.handlers.ending import Ending
from services.approval.handlers.interest import Interest
from services.approval.ports import ProposalLog, StaleError


class SlowLog:
    """Holds every append until it is let go; `fails` of them are lost races."""

    def __init__(self, fails: int = 0) -> None:
        born = fold([Recorded(1, "proposed", now(), proposed())])
        assert born is not None
        self.state: Proposal = born
        self.go = asyncio.Event()
        self.tried: list[str] = []
        self._fails = fails

    async def recall(self, tenant: str, proposal_id: str) -> Proposal:
        return self.state

    async def append(self, tenant: str, proposal_id: str, name: str, event: Event, expected: int) -> Any:
        self.tried.append(name)
        await self.go.wait()
        if self._fails:
            self._fails -= 1
            raise StaleError(proposal_id)
        moment: datetime = now()
        self.state = advance(self.state, Recorded(expected + 1, name, moment, event))
        return self.state.last_seq, moment


class Ends:
    """Which runs have ended."""

    def __init__(self, *runs: str) -> None:
        self.runs = set(runs)

    async def ended(self, tenant: str, run_id: str) -> bool:
        return run_id in self.runs


def _ending(log: SlowLog, *ended: str) -> Ending:
    interest = Interest(Ends(*ended))
    return Ending(cast(ProposalLog, log), cast(AuditTrail, None), interest)


async def _surface_twice(log: SlowLog) -> list[Proposal]:
    ending = _ending(log)
    at_once = [asyncio.create_task(ending.surface(log.state)) for _ in range(2)]
    await asyncio.sleep(0)
    log.go.set()
    return await asyncio.gather(*at_once)


@pytest.mark.spec("A1")
async def test_proposal_surfaced_by_two_at_once_is_announced_once_and_both_see_it() -> None:
    log = SlowLog()
    first, second = await _surface_twice(log)
    assert log.tried == ["waiting-for-human"]
    assert first.surfaced
    assert second.surfaced


@pytest.mark.spec("A1")
async def test_proposal_whose_first_announcement_failed_is_announced_by_who_waited() -> None:
    log = SlowLog(fails=1)
    _, second = await _surface_twice(log)
    assert log.tried == ["waiting-for-human"] * 2
    assert second.surfaced


@pytest.mark.spec("A1", "A10")
async def test_proposal_whose_run_has_ended_before_it_is_shown_is_cancelled_unseen() -> None:
    log = SlowLog()
    log.go.set()
    state = await _ending(log, str(log.state.origin.run_id)).surface(log.state)
    assert log.tried == ["cancelled", "completed"]
    assert (state.surfaced, state.finish_reason) == (False, FinishReason.CANCELLED)


@pytest.mark.spec("A1", "A10")
@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"run_id": None}, True),
        ({"rollback_of": "prop-0"}, True),
        ({"joined": "run-2"}, True),
        ({"joined": None}, True),
        ({"joined": "run-1"}, False),
        ({}, False),
    ],
    ids=["no run", "an undo", "a run that goes on", "a call without a run", "the same run again", "nobody else"],
)
async def test_proposal_of_an_ended_run_is_kept_for_whoever_else_waits(change: dict[str, Any], wanted: bool) -> None:
    born = fold([Recorded(1, "proposed", now(), proposed(origin=origin(run_id="run-1")))])
    assert born is not None
    if "joined" in change:
        caller = Caller(proposal_id="prop-2", run_id=change["joined"], call_id="call-2", request_id="req-2")
        born = replace(born, joined=(caller,))
    else:
        born = replace(born, origin=born.origin.model_copy(update=change))
    assert await Interest(Ends("run-1")).anyone(born) is wanted
    assert await Interest(Ends()).anyone(born, besides="run-1") is wanted
