"""Answers made of the evidence's own sentences: nothing is said that no document says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.agent.domain.language import language_of
from services.agent.domain.signals import COMPARE, MANIPULATION, SUMMARY
from services.agent.domain.text import coverage, sentences, shorten, terms

_LEAST_COVERAGE = 0.3
_NEARLY_AS_GOOD = 0.85
_HINT_WEIGHT = 0.25
_HEADING_WEIGHT = 0.3
_HEADING_ALONE = 0.6  # so much of the question in a heading makes the text below it an answer
_ASKS_FOR_NUMBER = re.compile(
    r"\bhow (?:much|many|long|often)\b|\blimit|\bamount\b|\bwhen\b|多少|几|上限|限额|金额|什么时候", re.IGNORECASE
)
_SENTENCE_CHARS = 400
_WHOLE = re.compile(r"^[^#].*[。！？；.!?]$")  # no heading, no line of a table


@dataclass(frozen=True, slots=True)
class Source:
    """One numbered piece of evidence, as a model is shown it. `heading`: the document's title and the section's."""

    number: int
    heading: str
    text: str
    trusted: bool = True
    document: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    score: float
    order: int
    sentence: str
    number: int


def extract(question: str, query: str, sources: Sequence[Source]) -> str:
    """The sentences that answer best, each with its number; empty when no source speaks of what is asked.

    Sources that nobody vouches for are only used when no other one answers, and sentences that give orders never.
    """
    if SUMMARY.search(question):
        return _overview(question, query, sources)
    limit = 4 if COMPARE.search(question) else 2
    for trusted in (True, False):
        some = [source for source in sources if source.trusted is trusted]
        chosen = _best(_candidates(question, query, some), limit)
        if chosen:
            return _joined(question, chosen)
    return ""


def _candidates(question: str, query: str, sources: Sequence[Source]) -> list[_Candidate]:
    asked = terms(question)
    hinted = terms(query) - asked
    language = language_of(question)
    wants_number = _ASKS_FOR_NUMBER.search(question) is not None
    found: list[_Candidate] = []
    for source in sources:
        above = coverage(asked, terms(source.heading))
        for sentence in sentences(source.text):
            if language_of(sentence) != language or MANIPULATION.search(sentence) or sentence.startswith("#"):
                continue
            told = terms(sentence)
            hits, share = len(asked & told), coverage(asked, told)
            speaks = share >= _LEAST_COVERAGE and (hits >= 2 or len(asked) < 3)
            if not speaks and not (above >= _HEADING_ALONE and _WHOLE.search(sentence)):
                continue
            bonus = 0.1 if wants_number and re.search(r"\d", sentence) else 0.0
            score = share + bonus + _HEADING_WEIGHT * above + _HINT_WEIGHT * coverage(hinted, told)
            found.append(_Candidate(score, len(found), shorten(sentence, _SENTENCE_CHARS), source.number))
    return found


def _best(candidates: list[_Candidate], limit: int) -> list[_Candidate]:
    if not candidates:
        return []
    ranked = sorted(candidates, key=lambda c: (-c.score, c.order))
    kept: dict[str, _Candidate] = {}
    for candidate in ranked:
        if candidate.score >= ranked[0].score * _NEARLY_AS_GOOD:
            kept.setdefault(candidate.sentence, candidate)
    return sorted(list(kept.values())[:limit], key=lambda c: c.order)


def _overview(question: str, query: str, sources: Sequence[Source]) -> str:
    """The first sentences of the document that is asked about, in the question's language."""
    asked, language = terms(query), language_of(question)
    trusted = [source for source in sources if source.trusted]
    speaking = [
        source for source in trusted if coverage(asked, terms(f"{source.heading} {source.text}")) >= _LEAST_COVERAGE
    ]
    chosen = [
        _Candidate(0.0, order, shorten(sentence, _SENTENCE_CHARS), source.number)
        for order, (source, sentence) in enumerate((s, t) for s in speaking for t in sentences(s.text))
        if language_of(sentence) == language and _WHOLE.search(sentence) and not MANIPULATION.search(sentence)
    ]
    return _joined(question, chosen[:5])


def _joined(question: str, chosen: list[_Candidate]) -> str:
    pieces = [f"{candidate.sentence} [{candidate.number}]" for candidate in chosen]
    return ("" if language_of(question) == "zh" else " ").join(pieces)
