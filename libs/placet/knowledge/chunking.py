"""Blocks of a parsed file to chunks: deterministic, never across a page or a section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from placet.knowledge.models import Chunk
from placet.knowledge.parsed import Block, ParsedDocument

MAX_COLUMNS = 900  # a wide (Chinese) character counts two columns: 450 Chinese or 900 English characters
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd]"
)
_SENTENCE_END = re.compile(r"(?<=[。！？])|(?<=[.!?])\s+|\n+")


def chunks_of(document_id: str, version: int, parsed: ParsedDocument) -> list[Chunk]:
    """Chunks named `<document_id>:v<version>:chunk-NN`, NN from 01."""
    return [
        Chunk(
            chunk_id=f"{document_id}:v{version}:chunk-{ordinal:02d}",
            ordinal=ordinal,
            body=body,
            page=page,
            section=section,
        )
        for ordinal, (body, page, section) in enumerate(_pack(parsed.blocks), start=1)
    ]


def sentences(text: str) -> list[str]:
    """Sentences without their line breaks; abbreviations may split one, which only makes it shorter."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def columns(text: str) -> int:
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))


def _pack(blocks: Iterable[Block]) -> Iterator[tuple[str, int | None, str | None]]:
    """Join neighbouring blocks of one place until a chunk is full."""
    held: list[str] = []
    place: tuple[int | None, str | None] = (None, None)
    used = 0
    for block in blocks:
        here = (block.page, " > ".join(block.section) or None)
        for piece in _split(block.text):
            width = columns(piece)
            if held and (here != place or used + width > MAX_COLUMNS):
                yield "\n".join(held), *place
                held, used = [], 0
            place = here
            held.append(piece)
            used += width
    if held:
        yield "\n".join(held), *place


def _split(text: str) -> Iterator[str]:
    """A block that fits as it is; a longer one by sentences, and a sentence without end by length."""
    if columns(text) <= MAX_COLUMNS:
        yield text
        return
    held = ""
    for sentence in sentences(text):
        for piece in _slices(sentence):
            joined = f"{held} {piece}".strip()
            if held and columns(joined) > MAX_COLUMNS:
                yield held
                joined = piece
            held = joined
    if held:
        yield held


def _slices(sentence: str) -> Iterator[str]:
    step = MAX_COLUMNS // 2  # fits even when every character is wide
    if columns(sentence) <= MAX_COLUMNS:
        yield sentence
    else:
        yield from (sentence[i : i + step] for i in range(0, len(sentence), step))
