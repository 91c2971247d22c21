"""Streaming an answer: in batches, and after a takeover only what is new (U5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from services.agent.adapters.graph.deltas import Deltas
from services.agent.domain.run import Place, RunRecord


class Log:
    """Keeps what is appended."""

    def __init__(self, streamed: str = "") -> None:
        self.record = RunRecord(seq=1, streamed=streamed)
        self.texts: list[str] = []
        self.rests_on: list[tuple[str, ...]] = []

    def at(self, place: Place) -> None:
        raise AssertionError("deltas do not move a run")

    async def append(self, name: str, data: dict[str, Any], rests_on: Sequence[str] = ()) -> bool:
        assert name == "message-delta"
        self.texts.append(data["text"])
        self.rests_on.append(tuple(rests_on))
        return True


ANSWER = "The nightly lodging limit in Shanghai is CNY 650, and meals are paid with CNY 120 a day. [1]"


async def stream(log: Log, text: str = ANSWER, size: int = 7) -> str:
    deltas = Deltas(log)
    for start in range(0, len(text), size):
        await deltas.add(text[start : start + size])
    return await deltas.close()


@pytest.mark.spec("U5")
async def test_answer_in_small_pieces_is_streamed_in_few_batches_that_make_up_the_whole() -> None:
    log = Log()
    assert await stream(log) == ANSWER
    assert "".join(log.texts) == ANSWER
    assert len(log.texts) <= 4


@pytest.mark.spec("U5", "U2")
async def test_answer_begun_by_a_worker_that_died_is_continued_where_it_stopped() -> None:
    log = Log(streamed=ANSWER[:50])
    assert await stream(log) == ANSWER
    assert "".join(log.texts) == ANSWER[50:]


@pytest.mark.spec("U5", "U2")
async def test_answer_that_begins_otherwise_than_what_was_streamed_is_not_mixed_with_it() -> None:
    log = Log(streamed="Something else entirely was said before")
    assert await stream(log) == ANSWER
    assert log.texts == []


async def test_lines_are_kept_apart_and_empty_ones_left_out() -> None:
    log = Log()
    deltas = Deltas(log)
    await deltas.line("one", "", "two")
    await deltas.new_line()
    await deltas.add("three")
    assert await deltas.close() == "one\ntwo\nthree"


@pytest.mark.spec("U5", "R6")
async def test_pieces_name_the_versions_they_may_quote_and_the_program_s_own_words_before_them_do_not() -> None:
    log = Log()
    deltas = Deltas(log)
    await deltas.line("This run has reached its limits. This is what is known so far.")
    deltas.rest_on(("doc-a:v1",))
    await deltas.line(ANSWER)
    await deltas.close()
    assert log.rests_on[0] == ()
    assert log.rests_on[-1] == ("doc-a:v1",)
    assert "".join(log.texts).startswith("This run has reached its limits.")
