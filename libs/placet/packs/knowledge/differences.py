"""What changes between two versions of a text, short enough for a person to read before deciding."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

MAX_INPUT_LINES = 4000
MAX_SHOWN_LINES = 120
MAX_SHOWN_CHARS = 8000


@dataclass(frozen=True, slots=True)
class Difference:
    """`text` is a unified diff, cut where it gets too long; `headline` counts the whole of what was compared."""

    headline: str
    text: str


def summarize(before: str, after: str) -> Difference:
    """Compares by lines. CPU-bound: a second or more for the longest inputs, so call it in a thread."""
    old, new = before.splitlines(), after.splitlines()
    too_long = max(len(old), len(new)) > MAX_INPUT_LINES
    lines = list(
        difflib.unified_diff(old[:MAX_INPUT_LINES], new[:MAX_INPUT_LINES], "before", "after", lineterm="", n=1)
    )
    body = lines[2:]  # after the two lines that name the sides
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    headline = f"lines added: {added}, removed: {removed}" if body else "no line differs"
    if too_long:
        headline += f" within the first {MAX_INPUT_LINES} lines"
    return Difference(headline=headline, text=_cut(lines))


def _cut(lines: list[str]) -> str:
    shown = "\n".join(lines[:MAX_SHOWN_LINES])
    if len(lines) <= MAX_SHOWN_LINES and len(shown) <= MAX_SHOWN_CHARS:
        return shown
    return f"{shown[:MAX_SHOWN_CHARS]}\n[cut: {len(lines)} lines in all]"
