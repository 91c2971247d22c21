"""Naming what a call was to do, and saying what it did, from its arguments and its receipt alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services.agent.domain.calls import Call
from services.agent.domain.language import Language, pick
from services.agent.domain.text import shorten

Fields = dict[str, Any]


def meant(call: Call, language: Language) -> str:
    """The action as a noun, to stand at the beginning of a sentence."""
    name = _MEANT.get(call.tool)
    return name(call.ran or call.args, language) if name else pick(language, f"“{_title(call)}”", _title(call))


def receipt(call: Call, language: Language) -> str:
    """What was done, with the ids it got."""
    done = _DONE.get(call.tool)
    fields = (call.ran or call.args) | (call.receipt or {})
    by = pick(language, "、", ", ").join(call.decided_by)
    if done is None:
        listed = ", ".join(f"{name}: {shorten(str(value), 80)}" for name, value in (call.receipt or {}).items())
        said = pick(language, f"已完成“{_title(call)}”（{listed}）", f"Done: {_title(call)} ({listed})")
    else:
        said = done(fields, language)
    if not by:
        return pick(language, f"{said}。", f"{said}.")
    return pick(language, f"{said}，由 {by} 批准。", f"{said}, approved by {by}.")


def _title(call: Call) -> str:
    return call.title or call.tool


def _amount(fields: Fields) -> str:
    currency = fields.get("currency")
    return f"{fields.get('amount')} {currency}" if currency else str(fields.get("amount"))


_MEANT: dict[str, Callable[[Fields, Language], str]] = {
    "refund_payment": lambda f, lang: pick(
        lang,
        f"订单 {f.get('order_id')} 的退款（{_amount(f)}）",
        f"The refund of {_amount(f)} for order {f.get('order_id')}",
    ),
    "cancel_order": lambda f, lang: pick(
        lang, f"订单 {f.get('order_id')} 的取消", f"The cancellation of order {f.get('order_id')}"
    ),
    "add_order_note": lambda f, lang: pick(
        lang, f"订单 {f.get('order_id')} 的备注", f"The note on order {f.get('order_id')}"
    ),
    "create_ticket": lambda f, lang: pick(lang, f"工单“{f.get('title')}”", f'The ticket "{f.get("title")}"'),
    "request_approval": lambda f, lang: pick(
        lang, f"审批申请“{f.get('subject')}”", f'The request for approval "{f.get("subject")}"'
    ),
    "query_business_data": lambda f, lang: pick(lang, "业务数据查询", "The look-up of business data"),
    "search_knowledge": lambda f, lang: pick(lang, "资料检索", "The search in the documents"),
    "read_document_version": lambda f, lang: pick(lang, "文档版本读取", "Reading the document version"),
    "get_document_source": lambda f, lang: pick(lang, "文档来源读取", "Reading the document's source"),
}
_DONE: dict[str, Callable[[Fields, Language], str]] = {
    "refund_payment": lambda f, lang: pick(
        lang,
        f"已为订单 {f.get('order_id')} 退款 {_amount(f)}，退款编号 {f.get('refund_id')}",
        f"Done: {_amount(f)} was refunded for order {f.get('order_id')}, refund {f.get('refund_id')}",
    ),
    "cancel_order": lambda f, lang: pick(
        lang, f"已取消订单 {f.get('order_id')}", f"Done: order {f.get('order_id')} was cancelled"
    ),
    "add_order_note": lambda f, lang: pick(
        lang,
        f"已为订单 {f.get('order_id')} 添加备注，编号 {f.get('note_id')}",
        f"Done: note {f.get('note_id')} was added to order {f.get('order_id')}",
    ),
    "create_ticket": lambda f, lang: pick(
        lang,
        f"已创建工单 {f.get('ticket_id')}（{f.get('team')}）：{f.get('title')}",
        f'Done: ticket {f.get("ticket_id")} "{f.get("title")}" was created for {f.get("team")}',
    ),
    "request_approval": lambda f, lang: pick(
        lang,
        f"已提交审批申请 {f.get('request_id')}：{f.get('subject')}",
        f'Done: request for approval {f.get("request_id")} "{f.get("subject")}" was filed',
    ),
}
