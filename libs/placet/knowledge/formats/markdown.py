"""Markdown (CommonMark with tables)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from placet.knowledge.formats import html, plain
from placet.knowledge.formats.outline import Outline
from placet.knowledge.parsed import Block

if TYPE_CHECKING:
    from markdown_it.token import Token


def parse(data: bytes) -> tuple[Block, ...]:
    outline = Outline()
    tokens = MarkdownIt("commonmark").enable("table").parse(_without_front_matter(plain.decode(data)))
    heading = 0
    row: list[str] | None = None
    for token in tokens:
        if token.type == "heading_open":
            heading = int(token.tag[1])
        elif token.type == "tr_open":
            row = []
        elif token.type == "tr_close" and row is not None:
            outline.text(" | ".join(row))
            row = None
        elif token.type == "inline":
            text = _plain(token)
            if row is not None:
                row.append(text)
            elif heading:
                outline.heading(heading, text)
                heading = 0
            else:
                outline.text(text)
        elif token.type in ("fence", "code_block"):
            outline.text(token.content)
        elif token.type == "html_block":
            html.walk(token.content, outline)
    return outline.finish()


def _plain(token: Token) -> str:
    """The words of inline markup without the markup: link texts, code and image descriptions stay, raw tags go."""
    parts: list[str] = []
    for child in token.children or []:
        if child.type in ("text", "code_inline", "image"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    return "".join(parts)


def _without_front_matter(text: str) -> str:
    """Drop a leading `---` block of metadata: it is about the file, not part of what it says."""
    if text.startswith("---\n"):
        head, found, rest = text[4:].partition("\n---\n")
        if found and len(head) < 10_000:
            return rest
    return text
