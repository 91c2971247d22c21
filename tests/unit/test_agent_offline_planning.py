"""The offline model: the calls it plans for sentences in both languages, and what it says of itself (U1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage

from services.agent.adapters.models.offline import NAME, OfflineChatModel
from services.agent.domain import fence

TOOLS = (
    "search_knowledge",
    "query_business_data",
    "read_document_version",
    "create_ticket",
    "add_order_note",
    "refund_payment",
    "cancel_order",
    "request_approval",
)


def openai(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}


def history(question: str, *more: Any) -> list[Any]:
    return [SystemMessage("rules"), HumanMessage(fence.question(question, question)), *more]


def think(question: str, *more: Any, tools: tuple[str, ...] = TOOLS) -> AIMessage:
    bound = OfflineChatModel().bind_tools([openai(name) for name in tools])
    message = bound.invoke(history(question, *more))
    assert isinstance(message, AIMessage)
    return message


def planned(question: str, *more: Any, tools: tuple[str, ...] = TOOLS) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in think(question, *more, tools=tools).tool_calls]


def answered(name: str, args: dict[str, Any], answer: dict[str, Any]) -> tuple[AIMessage, ToolMessage]:
    """A call of an earlier round and its result."""
    call = {"name": name, "args": args, "id": "call_1", "type": "tool_call"}
    told = fence.data(name, {"status": "ok", "asked": args, "answer": answer})
    return AIMessage("", tool_calls=[call]), ToolMessage(told, tool_call_id="call_1")


def refund(order: str, amount: float, reason: str) -> tuple[str, dict[str, Any]]:
    return "refund_payment", {"order_id": order, "amount": amount, "reason": reason}


def query(entity: str, **filters: str) -> tuple[str, dict[str, Any]]:
    return "query_business_data", {"entity": entity, **filters}


ORDER = query("orders", order_id="A1001")


PLANS: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("Please refund order A1001, 299, it arrived broken.", [refund("A1001", 299, "it arrived broken")]),
    ("请给订单A1001退款299元，商品到货时已损坏。", [refund("A1001", 299, "商品到货时已损坏")]),
    ("A1001退款 CNY 299 because the lamp is cracked", [refund("A1001", 299, "the lamp is cracked")]),
    ("Could you refund order A1002 100 CNY because it is scratched?", [refund("A1002", 100, "it is scratched")]),
    ("申请退款¥129.90，订单 A1003，原因：少发了一本", [refund("A1003", 129.9, "少发了一本")]),
    ("Refund 4,800 of order A2001, wrong item delivered", [refund("A2001", 4800, "wrong item delivered")]),
    ("refund order a1001, 299 yuan, since it leaks", [refund("A1001", 299, "it leaks")]),
    ("请退款订单 A1004 的 880元，因为椅子坏了", [refund("A1004", 880, "椅子坏了")]),
    ("Refund order A1001 -5, it broke", [refund("A1001", -5, "it broke")]),
    (
        "Refund 100 for A1001 and 50 for A1002, both scratched",
        [refund("A1001", 100, "both scratched"), refund("A1002", 50, "both scratched")],
    ),
    (
        "refund A1001 100 and A1002 50, both scratched",
        [refund("A1001", 100, "both scratched"), refund("A1002", 50, "both scratched")],
    ),
    ("refund order A1001", [ORDER]),
    ("请退款订单 A1001", [ORDER]),
    ("refund it please", []),
    (
        "Cancel order A1009, the customer changed their mind",
        [("cancel_order", {"order_id": "A1009", "reason": "the customer changed their mind"})],
    ),
    ("帮我取消订单 A1009，客户改变主意了", [("cancel_order", {"order_id": "A1009", "reason": "客户改变主意了"})]),
    (
        "Add a note to order A1003: customer called twice",
        [("add_order_note", {"order_id": "A1003", "note": "customer called twice"})],
    ),
    ("给订单 A1003 加备注：客户来电两次", [("add_order_note", {"order_id": "A1003", "note": "客户来电两次"})]),
    (
        "Create a high priority ticket for the logistics team: parcel lost",
        [
            (
                "create_ticket",
                {
                    "title": "parcel lost",
                    "priority": "high",
                    "team": "logistics",
                    "description": "Create a high priority ticket for the logistics team: parcel lost",
                },
            )
        ],
    ),
    (
        "请建一个紧急工单给物流团队：包裹丢失",
        [
            (
                "create_ticket",
                {
                    "title": "包裹丢失",
                    "priority": "urgent",
                    "team": "物流",
                    "description": "请建一个紧急工单给物流团队：包裹丢失",
                },
            )
        ],
    ),
    (
        "I want to request approval for a business dinner",
        [
            (
                "request_approval",
                {"subject": "a business dinner", "details": "I want to request approval for a business dinner"},
            )
        ],
    ),
    (
        "申请审批：采购两台显示器",
        [("request_approval", {"subject": "采购两台显示器", "details": "申请审批：采购两台显示器"})],
    ),
    ("What is the status of order A1001?", [ORDER]),
    ("订单 A1001 的状态", [ORDER]),
    ("A1001 退款了吗？", [query("refunds", order_id="A1001")]),
    ("Has order A1001 been refunded?", [query("refunds", order_id="A1001")]),
    ("A1009 的物流到哪了", [query("shipments", order_id="A1009")]),
    ("Where is my order A1009?", [query("shipments", order_id="A1009")]),
    ("查询客户 C1001 的订单", [query("orders", customer_id="C1001")]),
    ("Show me customer C1001", [query("customers", customer_id="C1001")]),
    ("list my tickets", [query("tickets")]),
    ("我的工单", [query("tickets")]),
    ("上海住宿上限是多少？", [("search_knowledge", {"query": "上海住宿上限是多少？", "k": 8})]),
    (
        "How many days of leave do I have?",
        [("search_knowledge", {"query": "How many days of leave do I have?", "k": 8})],
    ),
    (
        "Show me version 1 of doc-travel-v2",
        [("read_document_version", {"document_id": "doc-travel-v2", "version": 1})],
    ),
    ("显示 doc-travel-v1 的全文", [("read_document_version", {"document_id": "doc-travel-v1"})]),
]


@pytest.mark.spec("U1")
@pytest.mark.parametrize(("question", "calls"), PLANS, ids=[question for question, _ in PLANS])
def test_offline_model_given_a_question_plans_its_calls(question: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert planned(question) == calls


@pytest.mark.spec("U1")
def test_offline_model_given_a_refund_without_amount_asks_back_with_what_was_paid() -> None:
    item = {"order_id": "A1001", "paid_amount": 299, "refundable": 199, "currency": "CNY"}
    told = answered(*ORDER, {"items": [item]})
    message = think("refund order A1001", *told)
    assert message.tool_calls == []
    assert "299 CNY" in message.text
    assert "199 CNY can be refunded. How much" in message.text


@pytest.mark.spec("U1")
def test_offline_model_given_a_full_refund_takes_the_amount_from_the_order() -> None:
    told = answered(*ORDER, {"items": [{"order_id": "A1001", "refundable": 199}]})
    assert planned("refund order A1001 in full, it broke", *told) == [refund("A1001", 199, "it broke")]


def test_offline_model_given_an_order_that_was_not_found_asks_for_the_id() -> None:
    told = answered(*ORDER, {"items": []})
    assert think("refund order A1001", *told).text == "Order A1001 was not found. Please check the order id."


def test_offline_model_given_its_own_result_does_not_call_again() -> None:
    call = refund("A1001", 299, "it arrived broken")
    message = think("Please refund order A1001, 299, it arrived broken.", *answered(*call, {"refund_id": "R1"}))
    assert message.tool_calls == []
    assert message.text == ""


@pytest.mark.spec("T2")
def test_offline_model_without_the_tool_it_wants_calls_nothing_and_says_so() -> None:
    message = think("Please refund order A1001, 299, it arrived broken.", tools=("search_knowledge",))
    assert message.tool_calls == []
    assert message.text == "I have no tool that could do this."


@pytest.mark.spec("U1")
def test_offline_model_in_its_metadata_says_what_it_is() -> None:
    message = think("refund A1001 299")
    assert message.response_metadata["model_name"] == NAME
    assert message.response_metadata["offline"] is True
    assert message.usage_metadata is not None
    assert message.usage_metadata["total_tokens"] > 0


@pytest.mark.spec("U1")
def test_offline_model_given_the_same_history_repeats_itself_to_the_call_id() -> None:
    first, second = think("refund A1001 299"), think("refund A1001 299")
    assert first.tool_calls == second.tool_calls
    assert first.tool_calls[0]["id"] != think("refund A1001 300").tool_calls[0]["id"]


async def test_offline_model_streamed_says_and_calls_the_same_as_invoked() -> None:
    bound = OfflineChatModel().bind_tools([openai(name) for name in TOOLS])
    messages = history("refund A1001 100 and A1002 50, both scratched")
    whole: AIMessageChunk | None = None
    async for chunk in bound.astream(messages):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    invoked = await bound.ainvoke(messages)
    assert whole is not None
    assert [(c["name"], c["args"], c["id"]) for c in whole.tool_calls] == [
        (c["name"], c["args"], c["id"]) for c in invoked.tool_calls
    ]
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    assert json.dumps(whole.usage_metadata) == json.dumps(invoked.usage_metadata)
