"""Chunks: stable names, never across a place, never too long, nothing lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placet.knowledge.chunking import MAX_COLUMNS, chunks_of, columns
from placet.knowledge.parsed import Block, ParsedDocument


def _document(*blocks: Block) -> ParsedDocument:
    return ParsedDocument(media_type="text/plain", blocks=blocks)


def test_chunk_ids_carry_document_version_and_two_digit_number() -> None:
    document = _document(Block("one", section=("A",)), Block("two", section=("B",)))
    assert [chunk.chunk_id for chunk in chunks_of("doc-001", 3, document)] == [
        "doc-001:v3:chunk-01",
        "doc-001:v3:chunk-02",
    ]


def test_chunks_of_neighbouring_blocks_in_one_section_are_joined() -> None:
    (chunk,) = chunks_of("d", 1, _document(Block("one", section=("A", "B")), Block("two", section=("A", "B"))))
    assert (chunk.body, chunk.section, chunk.page) == ("one\ntwo", "A > B", None)


def test_chunks_across_a_page_break_are_separate() -> None:
    assert [c.page for c in chunks_of("d", 1, _document(Block("one", page=1), Block("two", page=2)))] == [1, 2]


def test_a_long_paragraph_is_split_at_sentences() -> None:
    sentence = "上海住宿上限为每晚六百五十元，超出部分由员工自行承担。"
    chunks = chunks_of("d", 1, _document(Block(sentence * 60)))
    assert len(chunks) > 1
    assert all(chunk.body.endswith("。") for chunk in chunks)


@given(st.lists(st.text(alphabet="ab 。.中文\n", min_size=1, max_size=3000), max_size=5))
def test_chunks_of_any_text_fit_and_keep_every_character(texts: list[str]) -> None:
    chunks = chunks_of("d", 1, _document(*(Block(text) for text in texts)))
    assert all(columns(chunk.body) <= MAX_COLUMNS + len(texts) for chunk in chunks)
    kept = "".join("".join(chunk.body for chunk in chunks).split())
    assert kept == "".join("".join(texts).split())
