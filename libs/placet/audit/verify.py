"""Proves that stored events are what was sealed, or names the first that is not. Memory does not grow with the record.

Everything is read once, in order: seal by seal, and below each seal its events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from placet.audit.chain import HOLE, follows, leaf, leaves_of
from placet.contracts.audit import Sealed
from placet.contracts.stored import StoredBytes


class Archive(Protocol):
    """The record to be checked: a bus, or an export of it."""

    def events(self, stream: str) -> AsyncIterator[StoredBytes]:
        """All events of a stream, in order."""
        ...

    def seals(self, stream: str) -> AsyncIterator[StoredBytes]:
        """All seals of a stream, in order."""
        ...


class SealReader(Protocol):
    def __call__(self, stored: StoredBytes, previous: int) -> Sealed | None:
        """The seal, if it is signed by the sealer's key for this place (after position `previous`); else None."""
        ...


class SignatureCheck(Protocol):
    def __call__(self, stored: StoredBytes) -> bool: ...


class Fault(StrEnum):
    CHANGED = "changed"
    MISSING = "missing"
    ADDED = "added"
    BAD_SIGNATURE = "bad_signature"
    BAD_SEAL = "bad_seal"
    BROKEN_CHAIN = "broken_chain"
    ROLLED_BACK = "rolled_back"
    UNSEALED = "unsealed"


@dataclass(frozen=True, slots=True)
class Broken:
    """The first thing that is wrong: an event (`seq`, `subject`) or a seal (`seal`, counted from 1)."""

    fault: Fault
    seq: int | None = None
    subject: str | None = None
    seal: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A seal that somebody has seen, to be found again in every later record."""

    number: int
    root: str


@dataclass(slots=True)
class Report:
    """What holds for one stream: `events` in `seals`, the last of which is `head`; and what is not sealed yet."""

    stream: str
    events: int = 0
    seals: int = 0
    up_to: int = 0
    head: Head | None = None
    unsealed: int = 0
    unsealed_from: int | None = None
    unsealed_since: str | None = None
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class Verifier:
    """`signatures`: the check of streams whose events are signed one by one. `heads`: seals seen earlier.

    An event that is older than `patience` and not sealed counts as broken: the sealer does not work, or its seals have
    been taken away.
    """

    archive: Archive
    read_seal: SealReader
    signatures: Mapping[str, SignatureCheck] = field(default_factory=dict)
    heads: Mapping[str, Head] = field(default_factory=dict)
    patience: timedelta = timedelta(minutes=5)

    async def verify(self, stream: str, now: datetime) -> Report:
        report = Report(stream)
        events = _Ahead(self.archive.events(stream))
        last: Sealed | None = None
        position = 0
        async for stored in self.archive.seals(stream):
            seal = self.read_seal(stored, position)
            leaves = leaves_of(seal) if seal else []
            if seal is None or not leaves:
                report.broken = Broken(Fault.BAD_SEAL, seal=report.seals + 1)
            elif not follows(seal, last):
                report.broken = Broken(Fault.BROKEN_CHAIN, seal=report.seals + 1)
            else:
                report.broken = await self._compare(seal, leaves, events) or self._other_head(seal)
            if seal is None or report.broken:
                return report
            last, position = seal, stored.seq
            report.events += seal.count
            report.seals, report.up_to, report.head = seal.number, seal.to_seq, Head(seal.number, seal.root)
        report.broken = self._lost_head(report) or await self._tail(report, events, now)
        return report

    def _other_head(self, seal: Sealed) -> Broken | None:
        """A genuine chain, but not the one that has been seen: the record was written anew, with the sealer's key."""
        known = self.heads.get(seal.stream)
        other = known and known.number == seal.number and known.root != seal.root
        return Broken(Fault.ROLLED_BACK, seal=seal.number) if other else None

    def _lost_head(self, report: Report) -> Broken | None:
        known = self.heads.get(report.stream)
        return Broken(Fault.ROLLED_BACK, seal=known.number) if known and known.number > report.seals else None

    async def _compare(self, seal: Sealed, leaves: list[bytes], events: _Ahead) -> Broken | None:
        for seq, expected in enumerate(leaves, seal.from_seq):
            found = await events.at(seq)
            if found is None and expected == HOLE:
                continue
            if found is None:
                return Broken(Fault.MISSING, seq, seal=seal.number)
            if leaf(found) != expected:
                fault = Fault.ADDED if expected == HOLE else Fault.CHANGED
                return Broken(fault, seq, found.subject, seal.number)
            if broken := self._unsigned(seal.stream, found):
                return broken
        return None

    async def _tail(self, report: Report, events: _Ahead, now: datetime) -> Broken | None:
        """What lies behind the last seal: counted, and its own signatures checked."""
        while found := await events.next():
            if broken := self._unsigned(report.stream, found):
                return broken
            report.unsealed += 1
            if report.unsealed_from is None:
                report.unsealed_from, report.unsealed_since = found.seq, found.time
                if found.time and now - datetime.fromisoformat(found.time) > self.patience:
                    return Broken(Fault.UNSEALED, found.seq, found.subject)
        return None

    def _unsigned(self, stream: str, event: StoredBytes) -> Broken | None:
        check = self.signatures.get(stream)
        return Broken(Fault.BAD_SIGNATURE, event.seq, event.subject) if check and not check(event) else None


class _Ahead:
    """Events in order, with a look at the next one."""

    def __init__(self, events: AsyncIterator[StoredBytes]) -> None:
        self._events = events
        self._held: StoredBytes | None = None

    async def next(self) -> StoredBytes | None:
        held, self._held = self._held, None
        return held or await anext(self._events, None)

    async def at(self, seq: int) -> StoredBytes | None:
        """The event of this sequence; None when there is none (the one behind it is kept)."""
        found = await self.next()
        if found and found.seq > seq:
            self._held = found
            return None
        return found
