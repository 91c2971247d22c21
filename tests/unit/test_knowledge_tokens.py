"""Terms: what makes one index serve Chinese and English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.knowledge.tokens import MAX_TERM, query_terms, readable, terms, tsvector


def test_terms_of_chinese_are_overlapping_bigrams() -> None:
    assert terms("上海住宿上限") == ["上海", "海住", "住宿", "宿上", "上限"]


def test_terms_of_english_are_stems_without_case() -> None:
    assert terms("Lodging limits LIMITED") == ["lodg", "limit", "limit"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A1001", ["a1001"]),
        ("CANARY-7f3a-LAYOFF", ["canari", "7f3a", "layoff"]),
        ("15,000 元", ["15000", "元"]),
        ("每晚650元", ["每晚", "650", "元"]),
        ("ＡＢＣ１２３", ["abc123"]),
        ("ﬁnance", ["financ"]),
        ("foo_bar", ["foo", "bar"]),
        ("…！？ --", []),
    ],
)
def test_terms_of_names_numbers_and_compatibility_forms_are_the_plain_ones(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_query_terms_with_filler_words_keep_only_the_topic() -> None:
    assert query_terms("What is the limit in Shanghai?") == ["limit", "shanghai"]
    assert query_terms("上海住宿上限是多少？") == ["上海", "海住", "住宿", "宿上", "上限", "限是"]


def test_query_terms_with_nothing_but_fillers_keep_them() -> None:
    assert query_terms("what is it") == ["what", "is", "it"]


def test_readable_text_keeps_chinese_punctuation_and_normalises_the_rest() -> None:
    assert readable("ＡＢＣ（第二版），ﬁn") == "ABC（第二版），fin"


@given(st.text())
def test_terms_of_any_text_are_safe_inside_a_tsvector_literal(text: str) -> None:
    found = terms(text)
    assert all(term and len(term) <= MAX_TERM and not set(term) & set("'\\ :&|!()<>*") for term in found)
    assert tsvector(found).count("'") == 2 * len(set(found))
