"""One refund from the question to the end of its run, by people who try again until they are answered."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from placet.client import ConflictError, NotFoundError, PlacetClient, UnavailableError
from placet.client.models import RunEvent
from placet.client.proposals import acknowledge
from tests.chaos.house import House
from tests.chaos.points import Trap

PATIENCE_S = 240.0
_PAUSE_S = 0.1

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Ending:
    """What must be there once everything has healed: `books` are the states of the order's refunds, `payments` how
    often the provider was asked to pay."""

    run: str = "success"
    proposal: tuple[str, ...] = ("proposed", "waiting-for-human", "approved", "completed")
    effect: tuple[str, ...] = ("claimed", "executed", "verified")
    books: tuple[str, ...] = ("paid",)
    payments: int = 1
    audited: frozenset[str] = frozenset({"proposal-decided", "effect-finished"})


@dataclass(slots=True)
class Journey:
    """What Alice asks, what Dave decides, and what both were told."""

    order_id: str
    amount: str
    question: str = "Please refund order {order_id}, {amount}, it arrived broken."
    request_id: str = field(default_factory=lambda: f"chaos-{secrets.token_hex(6)}")
    run_id: str = ""
    proposal_id: str = ""
    acknowledged: bool = False
    end: RunEvent | None = None
    events: list[RunEvent] = field(default_factory=list)
    ending: Ending = Ending()
    asker: str = "alice"
    # Further proposals that come of it, all of them carried out.
    undone_by: str = ""

    @property
    def ids(self) -> list[str]:
        """What tells its messages from those of others from the start."""
        return [self.order_id, self.request_id]

    async def go(self, house: House, trap: Trap | None = None) -> None:
        """Raises `TimeoutError` when a step is not answered in time."""
        await self.ask(house, trap)
        if self.end is None:
            await self.approve(house)
            await self.wait(house)

    async def ask(self, house: House, trap: Trap | None = None) -> None:
        """Until a person must decide. A run that ends before that has its `end` then."""
        async with house.client(self.asker) as client:
            alice = client.with_request_id(self.request_id)
            await self._start(alice, trap)
            waiting = await self._reach(alice, "run.waiting_for_human")
        if waiting.type == "run.completed":
            self.end = waiting
            return
        self.proposal_id = str(waiting.data["proposal_id"])
        if trap:
            trap.tokens.add(self.proposal_id.encode())

    async def approve(self, house: House, proposal_id: str = "", who: str = "dave") -> None:
        async with house.client(who) as client:
            await self._approve(client.with_request_id(self.request_id), proposal_id or self.proposal_id)

    async def wait(self, house: House) -> None:
        """Until the run has ended."""
        async with house.client(self.asker) as client:
            self.end = await self._reach(client.with_request_id(self.request_id), "run.completed")

    async def _start(self, alice: PlacetClient, trap: Trap | None) -> None:
        key = secrets.token_hex(16)
        body = {"question": self.question.format(order_id=self.order_id, amount=self.amount)}

        async def ask() -> str:
            answer = await alice._transport.post("/api/runs", body, idempotency_key=key)
            return str(answer.body["run_id"])

        self.run_id = await patient(ask)
        if trap:
            trap.tokens.add(self.run_id.encode())

    async def _reach(self, alice: PlacetClient, kind: str) -> RunEvent:
        async def look() -> RunEvent:
            async for event in alice.runs.follow(self.run_id, after=len(self.events)):
                self.events.append(event)
                if event.type in (kind, "run.completed"):
                    return event
            raise AssertionError("an event stream ends with run.completed")

        return await patient(look)

    async def _approve(self, dave: PlacetClient, proposal_id: str) -> None:
        proposal = await patient(lambda: dave.proposals.get(proposal_id))

        async def decide() -> None:
            try:
                await dave.proposals.decide(
                    proposal_id, "approve", digest=proposal.digest, acknowledgements=acknowledge(proposal)
                )
                self.acknowledged = True
            except ConflictError as error:
                # An attempt whose answer was lost has decided.
                if error.code != "already_decided":
                    raise

        await patient(decide)


async def patient(call: Callable[[], Awaitable[R]], *, absent: bool = False) -> R:
    """Again until it is answered: what a person does whose page says that something is not available.

    `absent`: also until it is there.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await call()
        except (UnavailableError, ConflictError, NotFoundError) as error:
            if isinstance(error, NotFoundError) and not absent:
                raise
            if isinstance(error, ConflictError) and error.code != "conflict":
                raise
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)
