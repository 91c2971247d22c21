"""What is looked at when not every chunk can be."""

from __future__ import annotations

from placet.knowledge.lexical import Selection, selections
from placet.knowledge.ranking import Corpus


def _corpus(**counts: int) -> Corpus:
    return Corpus(chunks=100_000, term_total=10_000_000, document_counts=counts)


def test_selections_of_rare_words_are_all_chunks_with_any_of_them() -> None:
    assert selections(["a", "b"], _corpus(a=300, b=200), 600) == [Selection(some=("b", "a"))]


def test_selections_take_rare_words_and_common_ones_together() -> None:
    found = selections(["a", "b", "c", "d", "e"], _corpus(a=9_000, b=20, c=500, d=8_000, e=9_500), 600)
    assert found == [
        Selection(some=("b", "c")),
        Selection(every=("d",), some=("a", "e"), but_not="'b' | 'c'"),
        Selection(every=("a", "e"), but_not="'b' | 'c' | 'd'"),
    ]


def test_selections_that_find_few_are_filled_up_with_what_holds_the_next_word_alone() -> None:
    assert selections(["a", "b"], _corpus(a=9_000, b=20), 600) == [
        Selection(some=("b",)),
        Selection(every=("a",), but_not="'b'"),
    ]
    assert selections(["a", "b"], _corpus(a=9_000, b=200), 600) == [Selection(some=("b",))]


def test_selections_of_common_words_end_with_the_chunks_that_hold_the_rarest_alone() -> None:
    assert selections(["a", "b", "c"], _corpus(a=9_000, b=7_000, c=8_000), 600) == [
        Selection(every=("b",), some=("c", "a")),
        Selection(every=("c", "a"), but_not="'b'"),
        Selection(every=("b",), but_not="'c' | 'a'"),
    ]
    assert selections(["a"], _corpus(a=9_000), 600) == [Selection(every=("a",))]
