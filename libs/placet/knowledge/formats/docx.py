"""Word documents. They have no pages of their own: sections are what can be cited."""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING, Any

from placet.knowledge.formats.outline import Outline
from placet.knowledge.formats.refusal import Refused
from placet.knowledge.parsed import Block

if TYPE_CHECKING:
    from docx.table import Table

MAX_EXPANDED = 200_000_000  # bytes
MAX_ENTRIES = 5_000
MAX_DEPTH = 5  # tables within tables
_HEADING = re.compile(r"(?:heading|标题)\s*([1-9])", re.IGNORECASE)


def parse(data: bytes) -> tuple[Block, ...]:
    _check_archive(data)
    import docx
    from docx.table import Table

    outline = Outline()
    for item in docx.Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(item, Table):
            _add_table(item, outline, depth=1)
        else:
            _add_paragraph(item, outline)
    return outline.finish()


def _check_archive(data: bytes) -> None:
    """Look at the sizes the archive declares before anything is expanded."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError) as error:
        raise Refused("corrupt", "The file is not a readable Word document.") from error
    if len(entries) > MAX_ENTRIES or sum(entry.file_size for entry in entries) > MAX_EXPANDED:
        raise Refused("expands_too_much", f"The document expands to more than {MAX_EXPANDED // 1_000_000} MB.")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Refused("encrypted", "The document is protected by a password.")


def _add_paragraph(paragraph: Any, outline: Outline) -> None:
    style = (paragraph.style.name if paragraph.style is not None else None) or ""
    match = _HEADING.match(style)
    if match:
        outline.heading(int(match.group(1)), paragraph.text)
    elif style == "Title":
        outline.heading(1, paragraph.text)
    else:
        outline.text(paragraph.text)


def _add_table(table: Table, outline: Outline, depth: int) -> None:
    for row in table.rows:
        cells: list[str] = []
        previous = None
        for cell in row.cells:
            if cell._tc is not previous:  # a merged cell is listed once per column it spans
                cells.append(" ".join(cell.text.split()))
            previous = cell._tc
        outline.text(" | ".join(cells))
        if depth < MAX_DEPTH:
            for cell in row.cells:
                for inner in cell.tables:
                    _add_table(inner, outline, depth + 1)
