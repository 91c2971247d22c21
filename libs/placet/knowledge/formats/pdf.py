"""PDF with a text layer."""

from __future__ import annotations

import re
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from placet.knowledge.formats.outline import Outline, tidy
from placet.knowledge.formats.refusal import Refused
from placet.knowledge.parsed import Block

MAX_PAGES = 5_000
_ENDS = (".", "!", "?", "。", "！", "？")
_WIDE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")


def parse(data: bytes) -> tuple[tuple[Block, ...], int]:
    """Blocks and the number of pages. Sections come from the bookmarks, where there are any."""
    document = _opened(data)
    try:
        count = len(document)
        if count == 0:
            raise Refused("corrupt", "The PDF has no readable pages.")
        if count > MAX_PAGES:
            raise Refused("too_many_pages", f"The PDF has {count} pages; {MAX_PAGES} are allowed.")
        bookmarks = _bookmarks(document)
        outline = Outline()
        for index in range(count):
            marks = bookmarks.get(index, [])
            for level, title in marks:
                outline.heading(level, title)
            titles = {tidy(title) for _, title in marks}
            for paragraph in _paragraphs(_page_text(document, index), titles):
                outline.text(paragraph, page=index + 1)
        return outline.finish() if outline.blocks else (), count
    finally:
        document.close()


def _opened(data: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise Refused("encrypted", "The PDF is protected by a password.") from error
        raise Refused("corrupt", "The file is not a readable PDF.") from error


def _page_text(document: Any, index: int) -> str:
    try:
        page = document[index]
        text_page = page.get_textpage()
    except pypdfium2.PdfiumError as error:
        raise Refused("corrupt", f"Page {index + 1} cannot be read.") from error
    try:
        return str(text_page.get_text_bounded())
    finally:
        text_page.close()
        page.close()


def _bookmarks(document: Any) -> dict[int, list[tuple[int, str]]]:
    """Page index to (level, title), in order."""
    found: dict[int, list[tuple[int, str]]] = {}
    for bookmark in document.get_toc(max_depth=6):
        target = bookmark.get_dest()
        index = target.get_index() if target is not None else None
        if index is not None:
            found.setdefault(index, []).append((bookmark.level + 1, bookmark.get_title()))
    return found


def _paragraphs(text: str, titles: set[str]) -> list[str]:
    """Lines joined to paragraphs: with a space, or without one between Chinese characters.

    A PDF knows lines only. One that ends a sentence ends a paragraph; a line that is a bookmark's title is a heading
    that the outline holds already.
    """
    paragraphs: list[str] = []
    held = ""
    for line in [*text.replace("\ufffe", "").splitlines(), ""]:
        stripped = tidy(line)
        if stripped and stripped not in titles:
            glue = "" if held and _WIDE.match(held[-1]) and _WIDE.match(stripped[0]) else " "
            held = f"{held}{glue}{stripped}" if held else stripped
        if held and (not stripped or stripped in titles or held.endswith(_ENDS)):
            paragraphs.append(held)
            held = ""
    return paragraphs
