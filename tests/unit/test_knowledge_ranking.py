"""Ranking without a database."""

from __future__ import annotations

import pytest

from placet.knowledge.ranking import Candidate, Corpus, bm25, coverage, fuse, snippet

CORPUS = Corpus(chunks=100, term_total=10_000, document_counts={"rare": 1, "common": 60})


def test_bm25_prefers_the_rare_term_to_the_common_one() -> None:
    found = bm25([Candidate("a", 100, {"common": 5}), Candidate("b", 100, {"rare": 1})], CORPUS, ["rare", "common"])
    assert list(found) == ["b", "a"]


def test_bm25_prefers_the_shorter_chunk_at_equal_counts() -> None:
    chunks = [Candidate("long", 400, {"rare": 1}), Candidate("short", 50, {"rare": 1})]
    assert list(bm25(chunks, CORPUS, ["rare"])) == ["short", "long"]


def test_bm25_with_an_empty_corpus_ranks_nothing() -> None:
    assert bm25([], Corpus(chunks=0, term_total=0, document_counts={}), ["rare"]) == {}


def test_bm25_is_a_share_of_what_the_question_could_have() -> None:
    some = bm25([Candidate("a", 100, {"common": 1})], CORPUS, ["rare", "common"])
    most = bm25([Candidate("a", 100, {"common": 99, "rare": 99})], CORPUS, ["rare", "common"])
    assert 0 < some["a"] < 0.1 < 0.9 < most["a"] < 1


def test_fusion_ranks_what_both_found_above_what_one_found() -> None:
    assert list(fuse({"a": 0.4, "b": 0.39}, {"b": 0.8, "c": 0.5, "d": 0.2}, 0.3)) == ["b", "a", "c", "d"]


def test_fusion_lets_meaning_win_where_words_are_found_by_chance() -> None:
    near = {"meant": 0.7, "other": 0.3, "chance": 0.2}
    assert next(iter(fuse({"chance": 0.1}, near, 0.3))) == "meant"
    assert next(iter(fuse({"chance": 0.6}, near, 0.3))) == "chance"


def test_fusion_does_not_depend_on_how_similar_everything_is_to_a_model() -> None:
    near = {"a": 0.1, "b": 0.4}
    shifted = {chunk_id: similarity + 0.5 for chunk_id, similarity in near.items()}
    assert fuse({"a": 0.2}, near, 0.3) == pytest.approx(fuse({"a": 0.2}, shifted, 0.3))


def test_fusion_without_vectors_is_the_order_of_words() -> None:
    assert list(fuse({"a": 0.2, "b": 0.1}, {}, 0.3)) == ["a", "b"]


def test_coverage_counts_words_by_their_weight() -> None:
    assert coverage({"rare": 1, "common": 1}, ["rare", "common"], CORPUS) == pytest.approx(1.0)
    assert coverage({"common": 9}, ["rare", "common"], CORPUS) < 0.2
    assert coverage({}, [], CORPUS) == 0.0


def test_snippet_starts_at_the_telling_sentence() -> None:
    body = "Meals are paid. " * 20 + "The nightly lodging limit in Shanghai is CNY 650. Taxis are paid."
    assert snippet(body, ["lodg", "shanghai"]).startswith("The nightly lodging limit in Shanghai is CNY 650.")


def test_snippet_without_a_match_is_the_beginning() -> None:
    assert snippet("第一句。第二句。", ["none"]) == "第一句。第二句。"
