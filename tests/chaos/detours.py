"""Journeys that do not end with a refund that is simply paid, each with the people who bring it to its end."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from placet.client import ConflictError
from placet.contracts.directory import PersonChange
from services.tool_executor.domain.rollback import rollback_id
from tests.chaos.house import TENANT, House
from tests.chaos.journey import PATIENCE_S, Ending, Journey, patient
from tests.chaos.points import Trap


@dataclass(slots=True)
class UndoneJourney(Journey):
    """The provider pays another amount than it was asked for: that is noticed, and people agree to take it back."""

    def __post_init__(self) -> None:
        self.ending = replace(
            Ending(), run="failed", effect=("claimed", "executed", "verification-failed"), books=("cancelled",)
        )

    async def go(self, house: House, trap: Trap | None = None) -> None:
        house.provider.wrong.add(self.order_id)
        await self.ask(house, trap)
        if self.end is not None:
            return
        async with house.client("dave") as dave:
            key = (await patient(lambda: dave.proposals.get(self.proposal_id))).idempotency_key
            self.undone_by = rollback_id(TENANT, key)
            await self.approve(house)
            await self.wait(house)
            undo = await patient(lambda: dave.proposals.get(self.undone_by), absent=True)
        for who in ("dave", "erin"):  # what was paid for the order is more than one may decide on
            await self.approve(house, self.undone_by, who)
        await house.effect_ends(undo.idempotency_key, "verified", PATIENCE_S)


@dataclass(slots=True)
class RegradedJourney(Journey):
    """Who asked loses the right to it while it waits: the proposal is looked at again and ends without anybody."""

    def __post_init__(self) -> None:
        self.ending = replace(
            Ending(),
            run="refused",
            proposal=("proposed", "waiting-for-human", "regraded", "completed"),
            effect=(),
            books=(),
            payments=0,
            audited=frozenset({"proposal-regraded"}),
        )
        self.asker = f"rita-{secrets.token_hex(4)}"

    @property
    def ids(self) -> list[str]:
        return [self.order_id, self.request_id, self.asker]

    async def go(self, house: House, trap: Trap | None = None) -> None:
        await self._may(house, "employee", "customer_support")
        await self.ask(house, trap)
        if self.end is None:
            await self._may(house, "employee")
            await self.wait(house)

    async def _may(self, house: House, *roles: str) -> None:
        change = PersonChange(active=True, roles=roles, teams=("support",), clearance=1)
        async with house.client("directory_admin") as client:
            admin = client.with_request_id(self.request_id)
            await patient(lambda: admin.directory.put(self.asker, change))


@dataclass(slots=True)
class UnknownJourney(Journey):
    """The provider is asked to pay and never heard of again: nobody knows, until it can be asked or a person says.

    `paid`: whether it has taken the money. `said`: what a person settles; None when the provider comes back.
    """

    paid: bool = True
    said: str | None = None

    def __post_init__(self) -> None:
        ends = {
            (True, None): (("executed", "verified"), "paid"),
            (False, None): (("failed",), "declined"),
            (True, "executed"): (("executed",), "paid"),
            (False, "not_executed"): (("failed",), "declined"),
        }
        last, books = ends[self.paid, self.said]
        self.ending = replace(Ending(), run="failed", effect=("claimed", "unknown", *last), books=(books,))

    async def go(self, house: House, trap: Trap | None = None) -> None:
        await self.ask(house, trap)
        if self.end is not None:
            return
        async with house.client("dave") as dave:
            key = (await patient(lambda: dave.proposals.get(self.proposal_id))).idempotency_key
        house.provider.dark[key] = self.paid
        await self.approve(house)
        await self.wait(house)
        if self.said is None:
            del house.provider.dark[key]
        else:
            await self._settle(house, key, self.said)
        await house.effect_ends(key, self.ending.effect[-1], PATIENCE_S)

    async def _settle(self, house: House, key: str, outcome: str) -> None:
        async with house.client("dave") as client:
            dave = client.with_request_id(self.request_id)

            async def say() -> None:
                try:
                    body = {"outcome": outcome, "note": "Asked the bank."}
                    await dave._transport.post(f"/api/effects/{key}/settle", body)
                except ConflictError as error:
                    if error.code != "already_decided":  # an attempt whose answer was lost has settled it
                        raise

            await patient(say)
