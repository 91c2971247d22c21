"""What the offline model would call next: a function of the question, the offered tools and what came back so far."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from services.agent.domain import extraction, signals
from services.agent.domain.answers import no_tool
from services.agent.domain.calls import fingerprint
from services.agent.domain.language import Language, language_of, pick
from services.agent.domain.offline.requests import Missing, Record, Wanted, requested


@dataclass(frozen=True, slots=True)
class Turn:
    """A call of an earlier round and its answer, as the model is told of them; `documents` a search has found."""

    tool: str
    args: dict[str, Any]
    data: dict[str, Any]
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to make now, or something to say instead; neither means: answer from what is there."""

    calls: tuple[Wanted, ...] = ()
    say: str = ""


_ENTITIES = (
    ("refunds", signals.REFUND),
    (
        "shipments",
        re.compile(
            r"shipment|shipp|parcel|package|deliver|track|where is|物流|快递|发货|包裹|运单|到哪", re.IGNORECASE
        ),
    ),
    ("tickets", signals.TICKET),
    ("orders", re.compile(r"\border|订单", re.IGNORECASE)),
    ("customers", re.compile(r"customer|client|客户|顾客", re.IGNORECASE)),
)


def plan(question: str, query: str, tools: Collection[str], turns: Sequence[Turn]) -> Plan:
    """Deterministic. Never plans a tool that is not offered, nor the same call twice."""
    if any(signals.is_request(question, about) for about in signals.ACTIONS.values()):
        wanted = requested(question, _known_orders(turns))
    elif "read_document_version" in tools and (reading := _read_version(question, turns)):
        wanted = [reading]
    elif "query_business_data" in tools and (asking := _query(question)):
        wanted = [asking]
    else:
        wanted = [Wanted("search_knowledge", {"query": query, "k": 8})]
    made = {fingerprint(turn.tool, turn.args) for turn in turns}
    fresh = [w for w in wanted if isinstance(w, Wanted) and fingerprint(w.tool, w.args) not in made]
    offered = tuple(call for call in fresh if call.tool in tools)
    if offered:
        return Plan(calls=offered)
    language = language_of(question)
    said = [_ask_back(item, language, turns) for item in wanted if isinstance(item, Missing)]
    if fresh:
        said.append(no_tool(language))
    return Plan(say=" ".join(said))


def _known_orders(turns: Sequence[Turn]) -> dict[str, Record]:
    """Orders that were looked up in this run, the ones that were not found included."""
    known: dict[str, Record] = {}
    for turn in turns:
        if turn.tool == "query_business_data" and turn.args.get("entity") == "orders" and turn.args.get("order_id"):
            order_id = str(turn.args["order_id"])
            items = [item for item in turn.data.get("items") or [] if item.get("order_id") == order_id]
            known[order_id] = Record(items[0] if items else {})
    return known


def _ask_back(missing: Missing, language: Language, turns: Sequence[Turn]) -> str:
    if missing.what == "order_id":
        return pick(language, "请告诉我是哪个订单（订单号）。", "Which order is it? Please give me the order id.")
    order = _known_orders(turns)[str(missing.order_id)].order
    if not order:
        return pick(
            language,
            f"没有找到订单 {missing.order_id}，请核对订单号。",
            f"Order {missing.order_id} was not found. Please check the order id.",
        )
    paid, rest, currency = order.get("paid_amount"), order.get("refundable"), order.get("currency", "")
    return pick(
        language,
        f"订单 {missing.order_id} 实付 {paid} {currency}，可退款 {rest} {currency}。请告诉我要退多少金额。",
        f"Order {missing.order_id} was paid with {paid} {currency}, of which {rest} {currency} can be refunded. "
        "How much should be refunded?",
    )


def _query(question: str) -> Wanted | None:
    """A look-up of records, when the question names one or asks for a list of them."""
    orders, customers = extraction.order_ids(question), extraction.customer_ids(question)
    if not orders and not customers and not signals.RECORD_QUESTION.search(question):
        return None
    entity = next(
        (name for name, pattern in _ENTITIES if pattern.search(question)), "orders" if orders else "customers"
    )
    args: dict[str, Any] = {"entity": entity}
    if entity != "tickets":
        if orders:
            args["order_id"] = orders[0]
        if customers:
            args["customer_id"] = customers[0]
    return Wanted("query_business_data", args)


def _read_version(question: str, turns: Sequence[Turn]) -> Wanted | None:
    """The version asked for, of the document named or of the best one that a search has found."""
    document = extraction.document_id(question)
    if document is None:
        document = next((found for turn in turns for found in turn.documents), None)
    if document is None:
        return None
    number = extraction.version_number(question)
    return Wanted("read_document_version", {"document_id": document} | ({"version": number} if number else {}))
