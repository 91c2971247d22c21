"""From a request for an action to the tool call it means, or to what is missing for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.agent.domain import extraction, signals
from services.agent.domain.language import Language, language_of, pick
from services.agent.domain.text import shorten


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that the request means."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Missing:
    """What the request does not say: `order_id` or `amount`, for which action, of which order."""

    what: str
    action: str
    order_id: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What the planner knows of one order by now: a field of the executor's answer, or nothing."""

    order: dict[str, Any] = field(default_factory=dict)


Found = list[Wanted | Missing]
_FULL = re.compile(
    r"\b(?:full(?:y|\s+(?:refund|amount|price))?|whole|everything|all of it|entire)\b|全额|全部|全款|整单",
    re.IGNORECASE,
)
_TITLE_CHARS = 120
_QUOTED = re.compile('["“「『]([^"”」』]{2,400})["”」』]')
_AFTER_COLON = re.compile(r"[:：]\s*(\S.{1,1000})$", re.DOTALL)
_ABOUT = re.compile(
    r"\b(?:about|regarding|saying|stating|that says|titled|called|for the problem)\b\s+(.+)$|"
    r"(?:关于|内容是|内容为|标题是|标题为|说明)(.+)$",
    re.IGNORECASE | re.DOTALL,
)
_TEAM = re.compile(
    r"\b(?:for|to|with|at)\s+(?:the\s+)?([A-Za-z][\w&-]{1,30})\s+(?:team|department|group)\b|"
    r"(?:给|到|由|派给|指派给)\s*([\u3400-\u9fffA-Za-z]{1,12}?)(?:团队|小组|部门|组|部)",
    re.IGNORECASE,
)
_PRIORITIES = (
    ("urgent", re.compile(r"\burgent(?:ly)?\b|\basap\b|紧急|加急", re.IGNORECASE)),
    ("high", re.compile(r"\bhigh\b|高优先|优先级高|优先级[:：为]?\s*高", re.IGNORECASE)),
    ("low", re.compile(r"\blow\b|低优先|优先级低|优先级[:：为]?\s*低", re.IGNORECASE)),
)
_APPROVAL_OF = re.compile(r"\bapproval\s+(?:for|of|to)\s+(.+)$|(?:审批|批准)\s*(.+)$", re.IGNORECASE | re.DOTALL)


def requested(question: str, known: dict[str, Record]) -> Found:
    """Everything that `question` asks to be done, in the order of the actions' list."""
    found: Found = []
    for action, about in signals.ACTIONS.items():
        if signals.is_request(question, about):
            found += _READERS[action](question, known)
    return found


def _refund(question: str, known: dict[str, Record]) -> Found:
    orders = extraction.order_ids(question)
    if not orders:
        return [Missing("order_id", "refund")]
    parts = [question] if len(orders) == 1 else _parts(question, orders)
    return [_one_refund(question, part, order, known) for part, order in zip(parts, orders, strict=True)]


def _one_refund(question: str, part: str, order_id: str, known: dict[str, Record]) -> Wanted | Missing:
    amount = extraction.amount(part)
    if amount is None and _FULL.search(question) and order_id in known:
        amount = known[order_id].order.get("refundable")
    if amount is None:
        if order_id not in known:
            return Wanted("query_business_data", {"entity": "orders", "order_id": order_id})
        return Missing("amount", "refund", order_id)
    return Wanted("refund_payment", {"order_id": order_id, "amount": amount, "reason": _reason(question)})


def _parts(question: str, orders: Sequence[str]) -> list[str]:
    """The stretch of text that belongs to each order: up to its id when amounts come first, else from its id on."""
    spans = [match.span() for order in orders if (match := re.search(re.escape(order), question, re.IGNORECASE))]
    if extraction.amount(question[: spans[0][0]]) is not None:
        starts = [0, *(end for _, end in spans[:-1])]
        return [question[start:end] for start, (_, end) in zip(starts, spans, strict=True)]
    starts = [start for start, _ in spans]
    return [question[start:end] for start, end in zip(starts, [*starts[1:], len(question)], strict=True)]


def _cancel(question: str, known: dict[str, Record]) -> Found:
    orders = extraction.order_ids(question)
    if not orders:
        return [Missing("order_id", "cancel")]
    return [Wanted("cancel_order", {"order_id": order, "reason": _reason(question)}) for order in orders]


def _note(question: str, known: dict[str, Record]) -> Found:
    orders = extraction.order_ids(question)
    if not orders:
        return [Missing("order_id", "note")]
    return [Wanted("add_order_note", {"order_id": orders[0], "note": shorten(_subject(question), 2000)})]


def _ticket(question: str, known: dict[str, Record]) -> Found:
    language = language_of(question)
    team = _TEAM.search(question)
    named = next((group for group in team.groups() if group), "") if team else ""
    args = {
        "title": shorten(_subject(question), _TITLE_CHARS),
        "priority": next((name for name, pattern in _PRIORITIES if pattern.search(question)), "normal"),
        "team": named.lower() or pick(language, "客服", "support"),
        "description": shorten(question, 4000),
    }
    return [Wanted("create_ticket", args)]


def _approval(question: str, known: dict[str, Record]) -> Found:
    match = _APPROVAL_OF.search(question)
    named = next((group for group in match.groups() if group), "") if match else ""
    subject = named.strip(" .。:：") or _subject(question)
    return [Wanted("request_approval", {"subject": shorten(subject, 200), "details": shorten(question, 4000)})]


def _reason(question: str) -> str:
    """The person's reason, else the person's own request, quoted: no reason is made up."""
    told = extraction.reason(question)
    language: Language = language_of(question)
    return told or shorten(pick(language, f"用户请求：{question}", f"As requested: {question}"), 300)


def _subject(question: str) -> str:
    for pattern in (_QUOTED, _AFTER_COLON, _ABOUT):
        if match := pattern.search(question):
            told = next(group for group in match.groups() if group).strip(" .。")
            if told:
                return told
    return question


_READERS: dict[str, Callable[[str, dict[str, Record]], Found]] = {
    "refund": _refund,
    "cancel": _cancel,
    "ticket": _ticket,
    "note": _note,
    "approval": _approval,
}
