"""Where a process is killed: a point between two steps, named by what goes over the wire there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

_BORN = re.compile(rb"(?:prop|eff)-[0-9a-f]{20,}")


class Side(StrEnum):
    """`BEFORE` it leaves the sender; `AFTER` the server has stored or answered it, and before anybody is told so;
    `ON` its arrival at the receiver."""

    BEFORE = "before"
    AFTER = "after"
    ON = "on"


@dataclass(frozen=True, slots=True)
class Point:
    """`victim` dies at `side` of the `nth` `what` that passes between `place` and the bus, database or provider."""

    victim: str
    side: Side
    place: str
    what: str
    nth: int = 1

    @property
    def name(self) -> str:
        nth = f" #{self.nth}" if self.nth > 1 else ""
        where = "" if self.place == self.victim else f" of {self.place}"
        return f"{self.victim} dies {self.side} {self.what}{nth}{where}"


@dataclass(slots=True)
class Trap:
    """A point of one run. `tokens` are the ids that tell this run's messages from those of others."""

    point: Point
    tokens: set[bytes]
    hit: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: int = 0

    def concerns(self, raw: bytes) -> bool:
        """Whether a message belongs to this run. Ids that are met for the first time in it belong to the run, too."""
        mine = any(token in raw for token in self.tokens)
        if mine and b".cmd.propose." in raw:
            self.tokens.update(_BORN.findall(raw))
        return mine

    def passes(self, place: str, what: str) -> bool:
        """Whether this is the message the point is about; to be asked once per message of the run."""
        if (self.point.place, self.point.what) != (place, what):
            return False
        self._seen += 1
        # More than that: the first time, nobody lived to answer.
        return self._seen >= self.point.nth


Kill = Callable[[str], None]
Witness = Callable[[Side, str, str, bytes], None]


class Traps:
    """All armed traps. Proxies ask it about every message; `kill` is called at the very moment."""

    def __init__(self, kill: Kill) -> None:
        self._armed: list[Trap] = []
        self._kill = kill
        self.witness: Witness | None = None

    def arm(self, point: Point, tokens: Iterable[str]) -> Trap:
        trap = Trap(point, {token.encode() for token in tokens})
        self._armed.append(trap)
        return trap

    def disarm(self, trap: Trap) -> None:
        if trap in self._armed:
            self._armed.remove(trap)

    def sprung(self, side: Side, place: str, what: str, raw: bytes) -> Trap | None:
        """The trap that this message springs. The caller does what the side asks for, then calls `fire`."""
        if self.witness:
            self.witness(side, place, what, raw)
        for trap in self._armed:
            wanted = trap.point.side
            if (wanted is Side.ON) is (side is Side.ON) and trap.concerns(raw) and trap.passes(place, what):
                return trap
        return None

    def fire(self, trap: Trap) -> None:
        if trap.hit.is_set():
            return
        self.disarm(trap)
        self._kill(trap.point.victim)
        trap.hit.set()
