"""What the offline model says when it is asked for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.agent.domain.answers import nothing_found
from services.agent.domain.language import language_of, pick
from services.agent.domain.offline.extractive import Source, extract
from services.agent.domain.offline.records import describe
from services.agent.domain.signals import GREETING

_THANKS = ("thank", "thx", "cheers", "谢", "感谢", "辛苦")

# What a tool was asked and what it answered.
Told = tuple[str, dict[str, Any]]


def answer(question: str, query: str, sources: Sequence[Source], told: Sequence[Told]) -> str:
    """From records and documents, if there are any; else a courtesy."""
    if not sources and not told:
        return _courtesy(question)
    language = language_of(question)
    records = [describe(data.get("asked") or {}, data.get("answer") or {}, language) for _, data in told]
    said = [*records, extract(question, query, sources)] if sources else records
    return "\n".join(text for text in said if text) or nothing_found(language)


def _courtesy(question: str) -> str:
    language = language_of(question)
    if GREETING.match(question) and any(word in question.lower() for word in _THANKS):
        return pick(language, "不客气！", "You are welcome!")
    return pick(
        language,
        "您好！我可以根据您有权阅读的资料回答问题、查询订单，并为您提出退款、工单等操作的提案。",
        "Hello! I answer from the documents you may read, look up orders, and propose actions such as refunds.",
    )
