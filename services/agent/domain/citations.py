"""Numbers in an answer: kept where they name evidence, removed where they do not (W6, K3)."""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"\s?[\[【](\d{1,4}(?:\s*[,，、]\s*\d{1,4})*)[\]】]")
# The beginning of what may become a reference: held back until it is decided.
_UNDECIDED = re.compile(r"\s?(?:[\[【][\d\s,，、]{0,40})?$")


class CitationFilter:
    """Takes an answer piece by piece and lets it through without invented references.

    Numbers that are kept are counted anew by first use, so that [1] in the answer is the first of its citations.
    The pieces it returns, put together, are the answer: what was streamed and what is stored are the same text.
    """

    def __init__(self, known: int) -> None:
        self._known = known
        self._held = ""
        self._cited: dict[int, int] = {}
        self._removed = 0

    @property
    def cited(self) -> list[int]:
        """The numbers of the evidence that was used, in the order of the citations."""
        return list(self._cited)

    @property
    def removed(self) -> int:
        """How many numbers named no evidence: invented, or not readable any more when the answer was written."""
        return self._removed

    def feed(self, piece: str) -> str:
        text = self._held + piece
        cut = _UNDECIDED.search(text)
        at = cut.start() if cut else len(text)
        self._held = text[at:]
        return _REFERENCE.sub(self._checked, text[:at])

    def close(self) -> str:
        """What was still held back."""
        rest, self._held = self._held, ""
        return _REFERENCE.sub(self._checked, rest)

    def _checked(self, match: re.Match[str]) -> str:
        written = [int(number) for number in re.findall(r"\d+", match.group(1))]
        kept = [number for number in written if 1 <= number <= self._known]
        self._removed += len(written) - len(kept)
        shown = [self._cited.setdefault(number, len(self._cited) + 1) for number in kept]
        space = " " if match.group(0).startswith(" ") else ""
        return space + "".join(f"[{number}]" for number in dict.fromkeys(shown)) if shown else ""
