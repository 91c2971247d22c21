"""Keeps track of the current section while a format walks through its headings."""

from __future__ import annotations

from placet.knowledge.parsed import Block


class Outline:
    """Collects blocks under a path of headings. Blank text is dropped, white space collapsed."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._path: list[tuple[int, str]] = []
        self._headings: list[Block] = []

    def heading(self, level: int, text: str) -> None:
        title = tidy(text)
        if not title:
            return
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, title))
        self._headings.append(Block(text=title))

    def text(self, text: str, page: int | None = None) -> None:
        tidied = tidy(text)
        if tidied:
            self.blocks.append(Block(text=tidied, page=page, section=tuple(title for _, title in self._path)))

    def finish(self) -> tuple[Block, ...]:
        """The blocks; the headings themselves when the file holds nothing else."""
        return tuple(self.blocks or self._headings)


def tidy(text: str) -> str:
    """Collapse runs of white space within lines, drop blank lines and what cannot be stored (NUL, lone surrogates)."""
    storable = text.replace("\x00", "").encode("utf-8", "ignore").decode()
    lines = (" ".join(line.split()) for line in storable.splitlines())
    return "\n".join(line for line in lines if line)
