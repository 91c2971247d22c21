"""What is looked at when not every chunk can be."""

from __future__ import annotations

from placet.knowledge.lexical import Selection, selections
from placet.knowledge.ranking import Corpus


def _corpus(**counts: int) -> Corpus:
    return Corpus(chunks=100_000, term_total=10_000_000, document_counts=counts)


def test_selections_of_rare_words_are_all_chunks_with_any_of_them() -> None:
    assert selections(["a", "b"], _corpus(a=300, b=200), 600) == [Selection(("b", "a"))]


def test_selections_take_rare_words_and_all_common_ones_together() -> None:
    found = selections(["a", "b", "c", "d"], _corpus(a=9_000, b=20, c=500, d=8_000), 600)
    assert found == [Selection(("b", "c")), Selection(("d", "a"), all=True, but_not="'b' | 'c'")]


def test_selections_of_common_words_begin_with_the_chunks_that_hold_them_all() -> None:
    assert selections(["a", "b", "c"], _corpus(a=9_000, b=7_000, c=8_000), 600) == [
        Selection(("b", "c", "a"), all=True),
        Selection(("b", "c"), all=True, but_not="'b' & 'c' & 'a'"),
        Selection(("b",), all=True, but_not="'b' & 'c'"),
    ]
    assert selections(["a"], _corpus(a=9_000), 600) == [Selection(("a",), all=True)]
