"""The long campaign: `python -m tests.chaos [--points N] [--seed S] [--only TEXT]`. Ends with 1 if anything is wrong.

Points are drawn at random from all that goes over the wire in one undisturbed refund; the same seed draws the same.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import time
from collections import Counter

from tests.chaos.campaign import AMOUNT, Campaign, add_orders, refunds
from tests.chaos.catalogue import points
from tests.chaos.house import House, open_house
from tests.chaos.journey import Journey
from tests.chaos.points import Point, Side


async def observed(house: House) -> list[Point]:
    """Every point of one undisturbed journey, in an order of names (the wire's own order is not always the same)."""
    order_id = (await add_orders(house, 1))[0]
    journey = Journey(order_id, AMOUNT)
    seen: Counter[tuple[str, str]] = Counter()
    found: set[Point] = set()
    watch = house.traps.arm(Point("nobody", Side.ON, "nowhere", "nothing"), [order_id, journey.request_id])

    def witness(side: Side, place: str, what: str, raw: bytes) -> None:
        if watch.concerns(raw):
            seen[place, what] += 1
            found.update(_possible(side, place, what, seen[place, what]))

    house.traps.witness = witness
    await journey.go(house, watch)
    house.traps.witness = None
    house.traps.disarm(watch)
    return sorted(found, key=lambda point: point.name)


def _possible(side: Side, place: str, what: str, nth: int) -> list[Point]:
    """Who may die there, and on which side of it."""
    owner = "tool-executor" if place == "provider" else place
    if side is Side.ON:
        return [Point(owner, Side.ON, place, what, nth)]
    store = "postgres" if what.split(maxsplit=1)[0].isupper() else "nats"
    victims = [owner] if place == "provider" else [victim for victim in (owner, store) if victim != "memory"]
    return [Point(victim, one, place, what, nth) for victim in victims for one in (Side.BEFORE, Side.AFTER)]


async def campaign(number: int, seed: int, only: str | None) -> int:
    print(f"chaos: seed {seed}", flush=True)
    began = time.monotonic()
    async with open_house() as house:
        everything = await observed(house)
        if only:
            chosen = [point for point in {*everything, *points()} if only in point.name]
        else:
            chosen = random.Random(seed).choices(everything, k=number)
        print(f"chaos: {len(chosen)} of {len(everything)} possible points", flush=True)
        ran = Campaign(house, tell=lambda what: print(f"chaos: {time.monotonic() - began:.0f} s, {what}", flush=True))
        await ran.run(refunds(chosen))
        kills = dict(house.kills)
    for point in ran.missed:
        print(f"chaos: not reached {point.name}")
    for name in ran.given_up:
        print(f"chaos: given up {name}")
    for problem in ran.problems:
        print(f"chaos: WRONG {problem}")
    print(
        f"chaos: {len(ran.hit)} points hit, {len(ran.missed)} not reached, "
        f"{len(ran.given_up)} told to try again later, kills {kills}, "
        f"{time.monotonic() - began:.0f} s"
    )
    if ran.problems:
        print(f"chaos: logs in .placet/chaos.log; again with: python -m tests.chaos --points {number} --seed {seed}")
    return 1 if ran.problems else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", help="every point whose name holds this text, in place of random ones")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    sys.exit(asyncio.run(campaign(given.points, seed, given.only)))


if __name__ == "__main__":
    main()
