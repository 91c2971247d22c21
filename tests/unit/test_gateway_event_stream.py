"""Frames of an event stream, where it begins, and what is done with an event that arrives."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from placet.contracts.runs import RunEvent
from services.gateway.domain.event_stream import Arrival, Progress, frame, start_after
from services.gateway.domain.runs import RunSeen

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def seen(seq: int, position: int | None = None, text: str = "") -> RunSeen:
    event = RunEvent(run_id="run-1", seq=seq, owner="alice", conversation_id="c", data={"text": text}, node="secret")
    return RunSeen(position or seq * 10, "message-delta", NOON, event)


@pytest.mark.spec("U5")
def test_frame_of_an_event_carries_id_type_and_the_public_fields_only() -> None:
    lines = frame(seen(7, text="第一行\nsecond")).decode().split("\n")
    assert lines[0] == "id: 7"
    assert lines[1] == "event: message.delta"
    document = orjson.loads(lines[2].removeprefix("data: "))
    assert document == {
        "run_id": "run-1",
        "seq": 7,
        "type": "message.delta",
        "time": "2026-11-30T12:00:00+00:00",
        "data": {"text": "第一行\nsecond"},
    }
    assert lines[3:] == ["", ""]


@pytest.mark.parametrize(("offered", "after"), [("0", 0), ("12", 12), (" 3 ", 3)])
def test_start_after_a_usable_id_is_that_sequence(offered: str, after: int) -> None:
    assert start_after(offered) == after


@pytest.mark.parametrize("offered", [None, "", "-1", "1.5", "abc", "٣", "9" * 13, "1e3", "0x10"])
def test_start_after_an_id_that_is_none_of_ours_is_the_start(offered: str | None) -> None:
    assert start_after(offered) == 0


def test_progress_live_events_in_order_are_next() -> None:
    progress = Progress(0)
    assert [progress.judge_live(seen(seq)) for seq in (1, 2, 3)] == [Arrival.NEXT] * 3
    assert (progress.seq, progress.position, progress.behind) == (3, 30, False)


def test_progress_repeated_event_is_seen() -> None:
    progress = Progress(2)
    assert progress.judge_live(seen(2)) is Arrival.SEEN
    assert progress.judge_stored(seen(1)) is Arrival.SEEN


def test_progress_live_event_after_a_hole_is_ahead_until_the_stream_has_filled_it() -> None:
    progress = Progress(1)
    assert progress.judge_live(seen(4)) is Arrival.AHEAD
    assert progress.behind
    assert progress.seq == 1
    assert [progress.judge_stored(seen(seq)) for seq in (2, 3, 4)] == [Arrival.NEXT] * 3
    assert not progress.behind


def test_progress_stored_events_that_were_seen_still_move_the_reading_position() -> None:
    progress = Progress(5)
    progress.judge_stored(seen(5, position=77))
    assert (progress.seq, progress.position) == (5, 77)


def test_settle_start_id_beyond_the_last_event_begins_again() -> None:
    progress = Progress(999)
    progress.settle_start(last_stored=4)
    assert progress.seq == 0


def test_settle_start_id_of_the_last_event_stays() -> None:
    progress = Progress(4)
    progress.settle_start(last_stored=4)
    assert progress.seq == 4


def test_settle_start_after_the_first_read_never_goes_back() -> None:
    progress = Progress(0)
    progress.judge_live(seen(1))
    progress.settle_start(last_stored=0)
    assert progress.seq == 1
