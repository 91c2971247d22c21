"""The conversation's summary: what was asked, read only to understand what "that" means (M1).

It holds the person's own words and names of documents, never a sentence of a document or a field of a record: those
are read anew, and authorized anew, by every question. So nothing here outlives the right to read it (U4).
"""

from __future__ import annotations

import re

from services.agent.domain.signals import MANIPULATION
from services.agent.domain.text import shorten, terms

SUMMARY_CHARS = 500
_ANSWER_CHARS = 200
_ASKED = re.compile(r"^Q: (.*?)(?: \| A: .*)?$", re.DOTALL)

# Questions that lean on the one before: they open with a pointer back, or say "it" and little else.
_OPENS_BACK = re.compile(
    r"^\W*(?:and|but|what about|how about|also|then|same for|(?:for|in) \w+\W*$)\b|^\W*(?:那|还有|另外|以及|同样|再)",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|that|this|those|these|them|there)\b|它|那个|这个|那里|上述|前者|后者", re.IGNORECASE
)
_SHORT_CHARS = 60
_FEW_TERMS = 3
_HINT_TERMS_CHARS = 80


def summary_of(asked: str, told: str) -> str:
    """At most 500 characters. `told`: what was done, or which documents answered, in the program's own words."""
    told = shorten(told, _ANSWER_CHARS)
    asked = shorten(asked, SUMMARY_CHARS - len(told) - len("Q:  | A: "))
    return f"Q: {asked} | A: {told}"


def wants_condensing(asked: str) -> bool:
    """A chain of questions that lean on each other grows: from here on a model may say it shorter."""
    return len(asked) > _HINT_TERMS_CHARS


def resolved(question: str, summary: str | None) -> str:
    """The question as a search query: with the words of the one before, when it leans on that.

    Only the earlier question is used. An answer, or a figure somebody claimed, never becomes part of a query.
    """
    if not summary or not _leans_back(question):
        return question
    match = _ASKED.match(summary)
    earlier = match.group(1) if match else ""
    if not earlier or MANIPULATION.search(earlier):
        return question
    words = re.sub(r"\d+(?:\.\d+)?", " ", earlier)
    hint = shorten(words, _HINT_TERMS_CHARS)
    return f"{question} {hint}" if terms(hint) - terms(question) else question


def _leans_back(question: str) -> bool:
    if len(question) > _SHORT_CHARS:
        return False
    if _OPENS_BACK.search(question):
        return True
    return _POINTS_BACK.search(question) is not None and len(terms(question)) <= _FEW_TERMS
