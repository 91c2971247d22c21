"""Going from point to point: the next one dies while the last one heals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import text

from tests.chaos.catalogue import points
from tests.chaos.house import House
from tests.chaos.journey import Journey
from tests.chaos.points import Point
from tests.chaos.spawners import ROOT
from tests.chaos.verdict import Records, gave_up, violations
from tests.integration.more_orders import copy_order

# Journeys that go on at the same time; and how many may still be healing behind them.
LANES = 3
_HEALING = 12
_REACHED_S = 120.0
# Some points lie behind the end that people see.
_AFTERWARDS_S = 30.0
_TOLD_EVERY = 20
_LOGS = ROOT / ".placet" / "chaos.log"
AMOUNT = "11"

# Where a process dies, and the journey on which it does, of an order.
Course = tuple[Point, Callable[[str], Journey]]


@dataclass(slots=True)
class Campaign:
    """Journeys with a point each. `problems` is what went wrong, in words; `given_up` are those whose owner was told to
    try again later, because what the run needed was away for longer than it tries."""

    house: House
    hit: list[Point] = field(default_factory=list)
    missed: list[Point] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    journeys: dict[str, Journey] = field(default_factory=dict)
    tell: Callable[[str], None] | None = None
    _healing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_HEALING))
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self, courses: Sequence[Course], lanes: int = LANES) -> None:
        """All of them; then once more, one by one, those that were not reached because somebody else died there."""
        await self._strike_all(courses, lanes)
        again = [course for course in courses if course[0] in self.missed]
        if again:
            self.missed.clear()
            await self.house.settled()
            await self._strike_all(again, 1)
        await asyncio.gather(*self._tasks)
        await self._judge()

    async def _strike_all(self, courses: Sequence[Course], lanes: int) -> None:
        orders = await add_orders(self.house, len(courses))
        left = [(point, journey(order)) for (point, journey), order in zip(courses, orders, strict=True)]

        async def lane() -> None:
            while left:
                await self._strike(*left.pop(0))

        await asyncio.gather(*(lane() for _ in range(lanes)))

    async def _strike(self, point: Point, journey: Journey) -> None:
        """Send a journey towards its point; returns when the point was hit, and leaves the rest to itself."""
        await self._healing.acquire()
        self.journeys[f"{len(self.journeys) + 1}. {point.name}"] = journey
        trap = self.house.traps.arm(point, journey.ids)
        going = asyncio.create_task(self._healed(point, journey, journey.go(self.house, trap)))
        self._tasks.append(going)
        hit = asyncio.create_task(trap.hit.wait())
        await asyncio.wait({hit, going}, timeout=_REACHED_S, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({hit}, timeout=_AFTERWARDS_S)
        hit.cancel()
        if trap.hit.is_set():
            self.hit.append(point)
        else:
            self.house.traps.disarm(trap)
            self.missed.append(point)
        if self.tell and len(self.journeys) % _TOLD_EVERY == 0:
            self.tell(f"{len(self.journeys)} journeys under way or done, {len(self.problems)} wrong")

    async def _healed(self, point: Point, journey: Journey, way: object) -> None:
        try:
            await way  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - told with the point it belongs to
            self.problems.append(f"{point.name}: {error!r} (run {journey.run_id})")
        finally:
            self._healing.release()

    async def _judge(self) -> None:
        """Some things follow the end that people see: what is not there yet is looked for again for a while."""
        deadline = time.monotonic() + _AFTERWARDS_S
        while True:
            await self.house.settled()
            wrong, given_up = await self._verdict()
            if not wrong or time.monotonic() > deadline:
                break
            await asyncio.sleep(1)
        self.given_up += given_up
        self.problems += [*self.house.never_back, *wrong]
        if self.problems:
            _LOGS.parent.mkdir(parents=True, exist_ok=True)
            _LOGS.write_text(self.house.logs(), encoding="utf-8")

    async def _verdict(self) -> tuple[list[str], list[str]]:
        """What is wrong, and who was told to try again later."""
        records = await Records.of(self.house)
        wrong, given_up = [], []
        for name, journey in self.journeys.items():
            if gave_up(journey, records):
                given_up.append(name)
            else:
                found = violations(journey, records, self.house)
                wrong += [f"{name}: {what} (run {journey.run_id})" for what in found]
        return wrong, given_up


def refunds(chosen: Iterable[Point]) -> list[Course]:
    """The plain journey for each of them."""
    return [(point, partial(Journey, amount=AMOUNT)) for point in chosen]


def courses(lines: str, kind: type[Journey], **details: Any) -> list[Course]:
    """The points of a part of the catalogue, each on a journey of this kind."""
    return [(point, partial(kind, amount=AMOUNT, **details)) for point in points(lines)]


async def add_orders(house: House, number: int) -> list[str]:
    """New orders of one customer of Alice's, and limits that do not stand in the way."""
    ids = [f"A{80000 + next(house.numbers)}" for _ in range(number)]
    database = house.stores.database()
    try:
        async with database.engine.begin() as connection:
            await copy_order(connection, ids)
            await connection.execute(text("UPDATE business.refund_limits SET per_day = 1000000"))
    finally:
        await database.close()
    return ids


def names(chosen: Iterable[Point]) -> set[str]:
    return {point.name for point in chosen}
