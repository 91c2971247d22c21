"""What parsing a file gives. Standard library only: the child process imports this."""

from __future__ import annotations

from dataclasses import dataclass

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
# What can be read, by the ending of the name; the bytes have to agree.
SUFFIXES = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "txt": "text/plain",
    "text": "text/plain",
    "html": "text/html",
    "htm": "text/html",
    "pdf": PDF,
    "docx": DOCX,
}


def media_type_of(filename: str) -> str:
    """What the name says the file is; nobody has looked at its bytes."""
    return SUFFIXES.get(filename.rpartition(".")[2].lower(), "application/octet-stream")


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, paragraph, list item, table row or listing, with where it stands."""

    text: str
    page: int | None = None
    section: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """`media_type` is what the bytes are; `pages` is None for formats without pages."""

    media_type: str
    blocks: tuple[Block, ...]
    pages: int | None = None

    def as_text(self) -> str:
        """The whole text for reading: each new section under its heading, each new page marked."""
        lines: list[str] = []
        section: tuple[str, ...] = ()
        page: int | None = None
        for block in self.blocks:
            if block.page is not None and block.page != page:
                lines.append(f"[page {block.page}]")
            if block.section and block.section != section:
                lines.append(f"{'#' * min(len(block.section), 6)} {block.section[-1]}")
            section, page = block.section, block.page
            lines.append(block.text)
        return "\n\n".join(lines)
