"""Sealing the record: nothing twice, nothing left out, whoever races (L2)."""

from __future__ import annotations

import pytest

from placet.audit.chain import MOST_EVENTS
from placet.audit.sealer import Chain, Sealer
from placet.audit.verify import Broken, Fault
from tests.unit.audit_record import STREAM, Record, event, sealed

pytestmark = pytest.mark.spec("L2")


async def test_seal_takes_up_where_the_last_one_ended_and_nothing_twice() -> None:
    record = await sealed(3)
    assert await Sealer(record, record).seal(STREAM) == 0
    record.events_ += [event(4)]
    assert await Sealer(record, record).seal(STREAM) == 1
    assert [(seal.number, seal.from_seq, seal.to_seq) for seal in record.seals_] == [(1, 1, 3), (2, 4, 4)]


async def test_seal_many_events_goes_into_as_many_seals_as_needed() -> None:
    record = Record([event(n + 1) for n in range(MOST_EVENTS * 2 + 5)])
    assert await Sealer(record, record).seal(STREAM) == MOST_EVENTS * 2 + 5
    assert [seal.count for seal in record.seals_] == [MOST_EVENTS, MOST_EVENTS, 5]
    assert (await record.verified()).broken is None


async def test_seal_over_a_hole_keeps_it_and_an_event_put_there_later_is_named() -> None:
    events = [event(n + 1) for n in range(MOST_EVENTS * 2 + 9)]
    record = Record([*events[:2], *events[MOST_EVENTS * 2 + 3 :]])
    while await Sealer(record, record).seal(STREAM):
        pass
    assert [seal.count for seal in record.seals_] == [2, 0, 6]
    assert (await record.verified()).broken is None
    record.events_.insert(2, events[2])
    assert (await record.verified()).broken == Broken(Fault.ADDED, 3, events[2].subject, 1)


async def test_seal_by_two_at_once_stores_one_chain() -> None:
    record = await sealed(2)
    first, second = Sealer(record, record), Sealer(record, record)
    for sealer in (first, second):
        await sealer.seal(STREAM)
    record.events_ += [event(3)]
    assert await first.seal(STREAM) == 1
    record.events_ += [event(4)]
    # The other one has sealed since the last look: left to it, this time.
    assert await second.seal(STREAM) == 0
    assert await second.seal(STREAM) == 1
    assert (await record.verified()).events == 4


async def test_seal_race_lost_between_look_and_append_leaves_the_chain_whole() -> None:
    record = await sealed(2)
    record.events_ += [event(3), event(4)]

    class Late(Record):
        async def chain(self, _: str) -> Chain:
            return Chain(record.seals_[0], 1)

    await Sealer(record, record).seal(STREAM)
    late = Late(record.events_, record.seals_)
    assert await Sealer(late, record).seal(STREAM) == 0
    report = await record.verified()
    assert (report.broken, report.events) == (None, 4)
