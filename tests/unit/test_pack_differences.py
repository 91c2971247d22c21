"""The text difference an approver reads before publishing."""

from __future__ import annotations

import random
import time

from placet.packs.knowledge.differences import MAX_INPUT_LINES, MAX_SHOWN_CHARS, MAX_SHOWN_LINES, summarize


def test_difference_of_one_line_shows_both_sides() -> None:
    found = summarize("one\ntwo\nthree\nfour", "one\n二\nthree\nfour")
    assert found.headline == "lines added: 1, removed: 1"
    assert found.text.splitlines() == ["--- before", "+++ after", "@@ -1,3 +1,3 @@", " one", "-two", "+二", " three"]


def test_difference_of_equal_texts_says_so() -> None:
    found = summarize("one\ntwo", "one\ntwo")
    assert (found.headline, found.text) == ("no line differs", "")


def test_difference_of_many_lines_is_cut_but_counted_whole() -> None:
    found = summarize("", "\n".join(f"line {n}" for n in range(1000)))
    assert found.headline == "lines added: 1000, removed: 0"
    assert len(found.text.splitlines()) == MAX_SHOWN_LINES + 1
    assert "[cut:" in found.text


def test_difference_of_one_endless_line_is_cut() -> None:
    found = summarize("", "x" * 1_000_000)
    assert len(found.text) < MAX_SHOWN_CHARS + 100


def test_difference_of_long_unlike_texts_ends_soon_and_says_what_it_compared() -> None:
    numbers = random.Random(7)
    before, after = ("\n".join(str(numbers.randrange(50)) for _ in range(20_000)) for _ in range(2))
    started = time.monotonic()
    found = summarize(before, after)
    assert time.monotonic() - started < 10
    assert found.headline.endswith(f"within the first {MAX_INPUT_LINES} lines")
