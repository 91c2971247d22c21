"""Journeys that do not end with a refund that is simply paid, each with the people who bring it to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.client import ConflictError
from tests.chaos.house import House
from tests.chaos.journey import PATIENCE_S, Ending, Journey, patient
from tests.chaos.points import Trap

_ENDED = ("verified", "verification-failed", "failed")


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
            (True, "executed"): (("executed",), "pending"),
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
