"""The way back from PostgreSQL's rank to a count."""

from __future__ import annotations

import struct

import pytest

from placet.knowledge.lexical import occurrences, selections
from placet.knowledge.ranking import Corpus


def _as_postgresql_answers(count: int) -> float:
    """As a 4-byte float, which is what `ts_rank` returns."""
    exact = 0.1 * sum(1 / (n * n) for n in range(1, count + 1)) / 1.64493406685
    return float(struct.unpack("f", struct.pack("f", exact))[0])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 254, 255])
def test_occurrences_from_a_rank_are_exact(count: int) -> None:
    assert occurrences(_as_postgresql_answers(count)) == count


def test_occurrences_without_a_rank_are_none() -> None:
    assert occurrences(0.0) == 0


def _corpus(**counts: int) -> Corpus:
    return Corpus(chunks=100_000, term_total=10_000_000, document_counts=counts)


def test_selections_of_rare_words_are_all_chunks_with_any_of_them() -> None:
    assert selections(["a", "b"], _corpus(a=300, b=200), 600) == ["'b' | 'a'"]


def test_selections_take_rare_words_and_all_common_ones_together() -> None:
    found = selections(["a", "b", "c", "d"], _corpus(a=9_000, b=20, c=500, d=8_000), 600)
    assert found == ["'b' | 'c'", "'d' & 'a' & !('b' | 'c')"]


def test_selections_of_common_words_begin_with_the_chunks_that_hold_them_all() -> None:
    found = selections(["a", "b", "c"], _corpus(a=9_000, b=7_000, c=8_000), 600)
    assert found == ["'b' & 'c' & 'a'", "'b' & 'c' & !('b' & 'c' & 'a')", "'b' & !('b' & 'c')"]
    assert selections(["a"], _corpus(a=9_000), 600) == ["'a'"]
