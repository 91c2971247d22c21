"""What follows a stored event: done once, and listed however long the listing's database is away."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from placet.contracts.envelope import Envelope
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.reading import Stored
from placet.messaging.work_queue import Job
from placet.testkit.builders import NOON, proposed
from services.approval.domain.state import Proposal, Recorded, fold
from services.approval.handlers import reactions as reactions_module
from services.approval.handlers.reactions import Reactions


class World:
    """A log of one proposal, and everything that reacts to it, written down in order."""

    def __init__(self) -> None:
        born = fold([Recorded(1, "proposed", NOON, proposed())])
        assert born is not None
        self.state = born
        self.away = 0
        self.hanging = False
        self.done: list[str] = []
        parts: list[Any] = [self] * 5
        self.reactions = Reactions(*parts, clock=lambda: NOON)

    async def recall(self, tenant: str, proposal_id: str) -> Proposal:
        return self.state

    load = recall

    async def surface(self, state: Proposal) -> Proposal:
        self.done.append("surfaced")
        return state

    async def finish(self, state: Proposal) -> Proposal:
        return state

    async def close(self, state: Proposal) -> None:
        self.done.append("closed")

    async def of(self, event: Stored, state: Proposal) -> None:
        self.done.append("recorded")

    async def on_proposed(self, state: Proposal) -> None:
        self.done.append("judged again")

    async def on_listed(self, state: Proposal, seq: int, judged_at: Any) -> None:
        self.done.append("looked at")

    async def store(self, tenant: str, state: Proposal) -> None:
        if self.hanging:
            await asyncio.Event().wait()
        if self.away:
            self.away -= 1
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "Away.")
        self.done.append("listed")

    async def stored(self, name: str, seq: int = 1) -> None:
        envelope = Envelope(
            id="e1", source="placet/approval", type="t", subject="prop-1", tenant="acme", correlationid="req-1", data={}
        )
        subject = f"placet.acme.approval.evt.{name}.v1.prop-1"
        event = Stored(seq, subject, name, "prop-1", "acme", envelope, verified=True)
        await self.reactions.on_stored(cast(Job, Job(event, attempt=1)))


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    ("name", "done"),
    [
        ("proposed", ["surfaced", "recorded", "listed", "looked at", "judged again"]),
        ("approved", ["surfaced", "recorded", "listed", "looked at"]),
        ("rejected", ["surfaced", "recorded"]),
        ("completed", ["closed", "listed"]),
    ],
)
async def test_stored_event_is_followed_up_and_then_listed(name: str, done: list[str]) -> None:
    world = World()
    await world.stored(name)
    assert world.done == done


@pytest.mark.spec("A1", "L1")
async def test_event_that_could_not_be_listed_is_listed_later_and_recorded_once() -> None:
    world = World()
    world.away = 2
    for _ in range(2):
        with pytest.raises(PlacetError):
            await world.stored("completed", seq=7)
    await world.stored("completed", seq=7)
    assert world.done == ["closed", "listed"]
    await world.stored("completed", seq=7)  # delivered once more: dealt with like the first time
    assert world.done == ["closed", "listed", "closed", "listed"]


@pytest.mark.spec("A1")
async def test_listing_that_does_not_answer_holds_an_event_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactions_module, "_LISTING_PATIENCE_S", 0.01)
    world = World()
    world.hanging = True
    with pytest.raises(TimeoutError):
        await world.stored("approved", seq=3)
    world.hanging = False
    await world.stored("approved", seq=3)
    assert world.done == ["surfaced", "recorded", "listed", "looked at"]
