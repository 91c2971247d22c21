"""Business records as sentences, in the language of the question. Values are shown as the executor gave them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from services.agent.domain.language import Language, pick
from services.agent.domain.text import shorten

_MOST = 10
_CONTENT_CHARS = 1500
_STATES = {
    "placed": "已下单",
    "paid": "已付款",
    "shipped": "已发货",
    "delivered": "已送达",
    "cancelled": "已取消",
    "preparing": "备货中",
    "in_transit": "运输中",
    "returned": "已退回",
    "open": "处理中",
    "closed": "已关闭",
}

Item = dict[str, Any]


def describe(args: Item, data: Item, language: Language) -> str:
    """What a look-up answered. Empty and invisible read the same (I3)."""
    if "content" in data:
        return _version(data, language)
    items = data.get("items")
    if not isinstance(items, list):
        return _any_record(data, language)
    if not items:
        return pick(language, "没有找到符合条件的记录。", "No matching records were found.")
    told = [_line(str(args.get("entity")), item, language) for item in items[:_MOST]]
    if data.get("next") or len(items) > _MOST:
        told.append(pick(language, "还有更多记录。", "There are more records."))
    return "\n".join(told) if len(told) > 1 else told[0]


def _state(value: Any, language: Language) -> str:
    return _STATES.get(str(value), str(value)) if language == "zh" else str(value).replace("_", " ")


# One line per kind of record, in both languages; `{state_}` is the state in the reader's words.
_TEXTS: dict[str, tuple[str, str]] = {
    "orders": (
        "订单 {order_id}（{item}）：{state_}，实付 {paid_amount} {currency}，已退款 {refunded_amount}，"
        "可退款 {refundable}。",
        "Order {order_id} ({item}): {state_}, paid {paid_amount} {currency}, refunded {refunded_amount}, "
        "refundable {refundable}.",
    ),
    "refunds": (
        "退款 {refund_id}：订单 {order_id}，{amount} {currency}，原因：{reason}，时间 {created_at}。",
        "Refund {refund_id} of order {order_id}: {amount} {currency}, reason: {reason}, at {created_at}.",
    ),
    "shipments": (
        "运单 {shipment_id}（订单 {order_id}，{carrier} {tracking_number}）：{state_}。",
        "Shipment {shipment_id} of order {order_id} ({carrier} {tracking_number}): {state_}.",
    ),
    "customers": (
        "客户 {customer_id}：{name}，邮箱 {email}，电话 {phone}。",
        "Customer {customer_id}: {name}, email {email}, phone {phone}.",
    ),
    "tickets": (
        "工单 {ticket_id}（{team}，{priority}）：{title}，{state_}。",
        "Ticket {ticket_id} ({team}, {priority}): {title}, {state_}.",
    ),
}


def _line(entity: str, item: Item, language: Language) -> str:
    texts = _TEXTS.get(entity)
    if texts is None:
        return _any_record(item, language)
    fields = defaultdict(lambda: "?", item, state_=_state(item.get("state"), language))
    return pick(language, *texts).format_map(fields)


def _any_record(item: Item, language: Language) -> str:
    return pick(language, "；", "; ").join(f"{name}: {value}" for name, value in item.items())


def _version(data: Item, language: Language) -> str:
    content = str(data.get("content") or "").strip()
    heading = pick(
        language,
        f"文档 {data.get('document_id')} 第 {data.get('version')} 版（{data.get('status')}）：",
        f"Document {data.get('document_id')}, version {data.get('version')} ({data.get('status')}):",
    )
    kept = content if len(content) <= _CONTENT_CHARS else content[:_CONTENT_CHARS] + "…"
    return f"{shorten(heading, 200)}\n{kept}" if kept else ""
