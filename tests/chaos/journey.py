"""One refund from the question to the end of its run, by people who try again until they are answered."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from placet.client import ConflictError, PlacetClient, UnavailableError
from placet.client.models import RunEvent
from placet.client.proposals import acknowledge
from tests.chaos.house import House
from tests.chaos.points import Trap

PATIENCE_S = 240.0
_PAUSE_S = 0.1

R = TypeVar("R")


@dataclass(slots=True)
class Journey:
    """What Alice asks, what Dave decides, and what both were told."""

    order_id: str
    amount: str
    request_id: str = field(default_factory=lambda: f"chaos-{secrets.token_hex(6)}")
    run_id: str = ""
    proposal_id: str = ""
    acknowledged: bool = False
    end: RunEvent | None = None
    events: list[RunEvent] = field(default_factory=list)

    async def go(self, house: House, trap: Trap | None = None) -> None:
        """Raises `TimeoutError` when a step is not answered in time."""
        async with house.client("alice") as one, house.client("dave") as other:
            alice, dave = one.with_request_id(self.request_id), other.with_request_id(self.request_id)
            await self._ask(alice, trap)
            waiting = await self._reach(alice, "run.waiting_for_human")
            if waiting.type == "run.completed":  # sooner than it should: the verdict says so
                self.end = waiting
                return
            self.proposal_id = str(waiting.data["proposal_id"])
            if trap:
                trap.tokens.add(self.proposal_id.encode())
            await self._approve(dave)
            self.end = await self._reach(alice, "run.completed")

    async def _ask(self, alice: PlacetClient, trap: Trap | None) -> None:
        key = secrets.token_hex(16)
        body = {"question": f"Please refund order {self.order_id}, {self.amount}, it arrived broken."}

        async def ask() -> str:
            answer = await alice._transport.post("/api/runs", body, idempotency_key=key)
            return str(answer.body["run_id"])

        self.run_id = await _patient(ask)
        if trap:
            trap.tokens.add(self.run_id.encode())

    async def _reach(self, alice: PlacetClient, kind: str) -> RunEvent:
        async def look() -> RunEvent:
            async for event in alice.runs.follow(self.run_id, after=len(self.events)):
                self.events.append(event)
                if event.type in (kind, "run.completed"):
                    return event
            raise AssertionError("an event stream ends with run.completed")

        return await _patient(look)

    async def _approve(self, dave: PlacetClient) -> None:
        proposal = await _patient(lambda: dave.proposals.get(self.proposal_id))

        async def decide() -> None:
            try:
                await dave.proposals.decide(
                    self.proposal_id, "approve", digest=proposal.digest, acknowledgements=acknowledge(proposal)
                )
                self.acknowledged = True
            except ConflictError as error:
                # An attempt whose answer was lost has decided.
                if error.code != "already_decided":
                    raise

        await _patient(decide)


async def _patient(call: Callable[[], Awaitable[R]]) -> R:
    """Again until it is answered: what a person does whose page says that something is not available."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await call()
        except (UnavailableError, ConflictError) as error:
            if isinstance(error, ConflictError) and error.code != "conflict":
                raise
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)
