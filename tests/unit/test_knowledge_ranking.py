"""Ranking without a database."""

from __future__ import annotations

import pytest

from placet.knowledge.ranking import Candidate, Corpus, bm25, coverage, fuse, snippet

CORPUS = Corpus(chunks=100, term_total=10_000, document_counts={"rare": 1, "common": 60})


def test_bm25_prefers_the_rare_term_to_the_common_one() -> None:
    found = bm25([Candidate("a", 100, {"common": 5}), Candidate("b", 100, {"rare": 1})], CORPUS)
    assert found == ["b", "a"]


def test_bm25_prefers_the_shorter_chunk_at_equal_counts() -> None:
    assert bm25([Candidate("long", 400, {"rare": 1}), Candidate("short", 50, {"rare": 1})], CORPUS) == ["short", "long"]


def test_bm25_with_an_empty_corpus_ranks_nothing() -> None:
    assert bm25([], Corpus(chunks=0, term_total=0, document_counts={})) == []


def test_fusion_ranks_what_both_found_above_what_one_found() -> None:
    assert [chunk_id for chunk_id, _ in fuse([(["a", "b"], 1.0), (["b"], 0.3)])] == ["b", "a"]


def test_fusion_lets_the_weaker_ranking_break_no_clear_lexical_lead() -> None:
    lexical = [f"l{index}" for index in range(5)]
    assert fuse([(lexical, 1.0), (["v0", "l4"], 0.3)])[0][0] == "l4"
    assert [chunk_id for chunk_id, _ in fuse([(lexical, 1.0), (["v0"], 0.3)])][:5] == lexical


def test_coverage_counts_words_by_their_weight() -> None:
    assert coverage({"rare": 1, "common": 1}, ["rare", "common"], CORPUS) == pytest.approx(1.0)
    assert coverage({"common": 9}, ["rare", "common"], CORPUS) < 0.2
    assert coverage({}, [], CORPUS) == 0.0


def test_snippet_starts_at_the_telling_sentence() -> None:
    body = "Meals are paid. " * 20 + "The nightly lodging limit in Shanghai is CNY 650. Taxis are paid."
    assert snippet(body, ["lodg", "shanghai"]).startswith("The nightly lodging limit in Shanghai is CNY 650.")


def test_snippet_without_a_match_is_the_beginning() -> None:
    assert snippet("第一句。第二句。", ["none"]) == "第一句。第二句。"
