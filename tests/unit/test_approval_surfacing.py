"""Surfacing: who proposes and the reaction to `proposed` come at the same moment, and one announcement is stored."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, cast

import pytest

from placet.audit.trail import AuditTrail
from placet.contracts.envelope import Event, now
from placet.testkit.builders import proposed
from services.approval.domain.state import Proposal, Recorded, advance, fold
from services.approval.handlers.ending import Ending
from services.approval.ports import OpenProposals, ProposalLog, StaleError


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


async def _surface_twice(log: SlowLog) -> list[Proposal]:
    ending = Ending(cast(ProposalLog, log), cast(AuditTrail, None), cast(OpenProposals, None))
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
