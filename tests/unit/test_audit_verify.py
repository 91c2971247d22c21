"""The chain of seals: what is proven, and which event is named when something is not what was sealed."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from placet.audit.chain import MOST_EVENTS, link
from placet.audit.sealer import Sealer
from placet.audit.verify import Broken, Fault, Head, Verifier
from placet.contracts.audit import Sealed
from placet.contracts.stored import StoredBytes
from tests.unit.audit_record import NOW, STREAM, Record, event, sealed

pytestmark = pytest.mark.spec("L2")


async def test_verify_honest_record_is_proven_and_its_unsealed_tail_is_counted() -> None:
    record = await sealed(5, 3, tail=4)
    report = await record.verified()
    assert report.broken is None
    assert (report.events, report.seals, report.up_to) == (8, 2, 8)
    assert (report.unsealed, report.unsealed_from) == (4, 9)
    assert report.head == Head(2, record.seals_[-1].root)


async def test_verify_empty_record_holds_and_proves_nothing() -> None:
    report = await Record().verified()
    assert (report.broken, report.events, report.seals, report.head) == (None, 0, 0, None)


def changed(events: list[StoredBytes]) -> None:
    events[5] = replace(events[5], payload=b"event 6, as somebody would like it")


def moved_to_another_subject(events: list[StoredBytes]) -> None:
    events[5] = replace(events[5], subject=events[5].subject.replace("acme", "globex"))


def removed(events: list[StoredBytes]) -> None:
    del events[5]


def removed_and_closed_up(events: list[StoredBytes]) -> None:
    del events[5]
    events[5:] = [replace(one, seq=one.seq - 1) for one in events[5:]]


def inserted(events: list[StoredBytes]) -> None:
    events[5:] = [event(6, "never happened"), *(replace(one, seq=one.seq + 1) for one in events[5:])]


def swapped(events: list[StoredBytes]) -> None:
    events[5], events[6] = replace(events[6], seq=6), replace(events[5], seq=7)


@pytest.mark.parametrize(
    ("tamper", "fault"),
    [
        (changed, Fault.CHANGED),
        (moved_to_another_subject, Fault.CHANGED),
        (removed, Fault.MISSING),
        (removed_and_closed_up, Fault.CHANGED),
        (inserted, Fault.CHANGED),
        (swapped, Fault.CHANGED),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_verify_tampered_record_names_the_first_event_that_is_not_what_was_sealed(
    tamper: Callable[[list[StoredBytes]], None], fault: Fault
) -> None:
    record = await sealed(4, 6, tail=2)
    tamper(record.events_)
    report = await record.verified()
    assert report.broken is not None
    assert (report.broken.fault, report.broken.seq, report.broken.seal) == (fault, 6, 2)
    assert (report.events, report.seals) == (4, 1)


@pytest.mark.parametrize("kept", range(10))
async def test_verify_record_cut_off_anywhere_names_the_first_missing_event(kept: int) -> None:
    record = await sealed(4, 6)
    del record.events_[kept:]
    broken = (await record.verified()).broken
    assert broken == Broken(Fault.MISSING, kept + 1, seal=1 if kept < 4 else 2)


async def test_verify_seal_without_the_sealers_signature_is_named() -> None:
    record = await sealed(3, 3, 3)
    record.forged.add(2)
    assert (await record.verified()).broken == Broken(Fault.BAD_SEAL, seal=2)


@pytest.mark.parametrize(
    "change",
    [{"root": "0" * 64}, {"leaves": "AAAA"}, {"leaves": "?"}, {"count": 2}, {"to_seq": 7}, {"previous": "1" * 64}],
    ids=str,
)
async def test_verify_seal_that_does_not_fit_together_is_named_whoever_signed_it(change: dict[str, object]) -> None:
    record = await sealed(3, 3, 3)
    record.seals_[1] = record.seals_[1].model_copy(update=change)
    assert (await record.verified()).broken == Broken(Fault.BAD_SEAL, seal=2)


async def test_verify_chain_with_a_genuine_seal_out_of_place_is_named() -> None:
    record = await sealed(3, 3, 3)
    record.seals_[1] = record.seals_[0]
    assert (await record.verified()).broken == Broken(Fault.BROKEN_CHAIN, seal=2)


async def test_verify_seal_of_another_stream_does_not_continue_the_chain() -> None:
    record = await sealed(3)
    record.events_ += [event(4)]
    record.seals_.append(link("EFFECTS", record.seals_[0], [event(4)]))
    assert (await record.verified()).broken == Broken(Fault.BROKEN_CHAIN, seal=2)


async def test_verify_record_rewritten_together_with_its_seals_is_found_by_who_kept_the_last_one() -> None:
    before = await (await sealed(3, 3)).verified()
    assert before.head is not None
    again = Record()
    for batch in ([event(1), event(2)], [event(3), event(4, "another story"), event(5), event(6)]):
        again.events_ += batch
        await Sealer(again, again).seal(STREAM)
    assert (await again.verified()).broken is None
    assert (await again.verified(heads={STREAM: before.head})).broken == Broken(Fault.ROLLED_BACK, seal=2)


async def test_verify_record_rolled_back_to_an_earlier_state_is_found_by_who_kept_the_last_seal() -> None:
    record = await sealed(3, 3)
    head = (await record.verified()).head
    assert head is not None
    assert (await record.verified(heads={STREAM: head})).broken is None
    del record.events_[3:], record.seals_[1:]
    assert (await record.verified()).broken is None
    assert (await record.verified(heads={STREAM: head})).broken == Broken(Fault.ROLLED_BACK, seal=2)


async def test_verify_old_events_without_a_seal_are_broken_not_just_late() -> None:
    record = await sealed(3)
    record.events_ += [event(4, stored=NOW - timedelta(minutes=6)), event(5)]
    assert (await record.verified()).broken == Broken(Fault.UNSEALED, 4, record.events_[3].subject)
    assert (await record.verified(patience=timedelta(minutes=10))).broken is None


async def test_verify_streams_whose_events_are_signed_names_the_first_unsigned_one_sealed_or_not() -> None:
    record = await sealed(3, tail=2)

    def check(bad: int) -> dict[str, Callable[[StoredBytes], bool]]:
        return {STREAM: lambda stored: stored.seq != bad}

    for bad in (2, 5):
        broken = (await record.verified(signatures=check(bad))).broken
        assert broken is not None
        assert (broken.fault, broken.seq) == (Fault.BAD_SIGNATURE, bad)


class Long:
    """A hundred thousand events that exist one at a time only, with their seals."""

    size = 100_000

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def _all(self) -> Iterator[StoredBytes]:
        for n in range(self.size):
            if n % 5000 == 0:
                self.blocks.append(sys.getallocatedblocks())
            yield StoredBytes(n + 1, "placet.acme.audit.evt.tool-decided.v1.run-1", b"event %d" % n, {})

    async def events(self, _: str) -> AsyncIterator[StoredBytes]:
        for one in self._all():
            yield one

    async def seals(self, _: str) -> AsyncIterator[StoredBytes]:
        batch: list[StoredBytes] = []
        last: Sealed | None = None
        for one in self._all():
            batch.append(one)
            if len(batch) == MOST_EVENTS or one.seq == self.size:
                last, batch = link(STREAM, last, batch), []
                yield StoredBytes(last.number, "seal", last.model_dump_json().encode(), {})


async def test_verify_a_hundred_thousand_events_needs_no_more_memory_than_a_thousand() -> None:
    def read(stored: StoredBytes, previous: int) -> Sealed:
        return Sealed.model_validate_json(stored.payload)

    archive = Long()
    report = await Verifier(archive, read).verify(STREAM, NOW)
    assert (report.broken, report.events, report.seals, report.unsealed) == (None, 100_000, 196, 0)
    first, most = archive.blocks[2], max(archive.blocks)
    # A few seals' worth of objects, and not one per event.
    assert most - first < 20_000, archive.blocks
