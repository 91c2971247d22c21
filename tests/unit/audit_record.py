"""A record in memory, with its seals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from placet.audit.sealer import Chain, Sealer, SealRaceError
from placet.audit.verify import Report, Verifier
from placet.contracts.audit import Sealed
from placet.contracts.stored import StoredBytes

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


STREAM = "AUDIT"


def event(seq: int, text: str = "", stored: datetime = NOW) -> StoredBytes:
    subject = f"placet.acme.audit.evt.tool-decided.v1.run-{seq % 7}"
    return StoredBytes(seq, subject, (text or f"event {seq}").encode(), {}, stored.isoformat())


@dataclass
class Record:
    """A stream and its seals in memory. A seal counts as signed unless it was put into `forged`."""

    events_: list[StoredBytes] = field(default_factory=list)
    seals_: list[Sealed] = field(default_factory=list)
    forged: set[int] = field(default_factory=set)
    page_limit: int = 10_000

    async def events(self, _: str) -> AsyncIterator[StoredBytes]:
        for one in self.events_:
            yield one

    async def seals(self, _: str) -> AsyncIterator[StoredBytes]:
        for seq in range(1, len(self.seals_) + 1):
            yield StoredBytes(seq, "seal", b"", {})

    def read_seal(self, stored: StoredBytes, previous: int) -> Sealed | None:
        return None if stored.seq in self.forged or previous != stored.seq - 1 else self.seals_[stored.seq - 1]

    async def page(self, _: str, after: int, limit: int) -> list[StoredBytes]:
        return [one for one in self.events_ if one.seq > after][: min(limit, self.page_limit)]

    async def chain(self, _: str) -> Chain:
        return Chain(self.seals_[-1] if self.seals_ else None, len(self.seals_))

    async def append(self, seal: Sealed, position: int) -> Chain:
        if position != len(self.seals_):
            raise SealRaceError(STREAM)
        self.seals_.append(seal)
        return Chain(seal, len(self.seals_))

    async def verified(self, **options: object) -> Report:
        return await Verifier(self, self.read_seal, **options).verify(STREAM, NOW)  # type: ignore[arg-type]


async def sealed(*batches: int, tail: int = 0) -> Record:
    """A record whose batches were sealed one after the other, and a tail that was not."""
    record = Record()
    for size in batches:
        record.events_ += [event(len(record.events_) + 1 + n) for n in range(size)]
        await Sealer(record, record).seal(STREAM)
    record.events_ += [event(len(record.events_) + 1 + n) for n in range(tail)]
    return record
