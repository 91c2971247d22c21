"""Money in arguments, and the rules of a refund as pure decisions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from placet.contracts.errors import ErrorCode
from placet.packs.business.arguments import ChangeOrder, CreateTicket, QueryBusinessData, RefundPayment
from placet.packs.business.money import as_number, parse_amount
from placet.packs.business.orders import Order
from placet.packs.business.refund_rules import Limits, check_limits, check_order


def refund(amount: Any) -> RefundPayment:
    return RefundPayment.model_validate({"order_id": "A1001", "amount": amount, "reason": "broken"})


def order(paid: str = "299.00", refunded: str = "0.00", state: str = "delivered") -> Order:
    return Order("A1001", "C1001", state, "CNY", Decimal(paid), Decimal(refunded), "Lamp", "Shanghai", 1, ("alice",))


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    "written",
    [
        '"299"', '"299.00"', '"two hundred"', '""', "true", "false", "null", "[299]", '{"value": 299}',
        "0", "0.0", "-0.0", "-1", "-0.01", "NaN", "Infinity", "-Infinity", "1e308", "-1e308", "1e400", "5e-324",
        "1e10", "1000000000.01", "1" + "0" * 400, "0.001", "299.999", "0.1000000001", "0.30000000000000004", "1e-3",
    ],
)  # fmt: skip
def test_amount_that_is_no_sum_of_money_is_refused(written: str) -> None:
    with pytest.raises(ValidationError) as caught:
        refund(json.loads(written))
    assert [error["loc"] for error in caught.value.errors()] == [("amount",)]


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("299", "299.00"),
        ("299.0", "299.00"),
        ("299.10", "299.10"),
        ("0.01", "0.01"),
        ("1e2", "100.00"),
        ("0.07", "0.07"),
    ],
)
def test_amount_as_a_json_number_is_exact_to_the_cent(written: str, amount: str) -> None:
    assert str(refund(json.loads(written)).amount) == amount


@pytest.mark.spec("A1")
@given(cents=st.integers(min_value=1, max_value=10**11))
def test_amount_in_a_packet_is_read_back_as_the_same_amount(cents: int) -> None:
    args = refund(Decimal(cents) / 100)
    stored = json.loads(json.dumps(args.model_dump(mode="json")))
    assert isinstance(stored["amount"], int | float)
    assert refund(stored["amount"]) == args
    assert parse_amount(as_number(args.amount)) == args.amount


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("state", "amount", "rule"),
    [
        ("delivered", "299.00", None),
        ("paid", "0.01", None),
        ("delivered", "299.01", "refundable"),
        ("placed", "1", "order_state"),
        ("shipped", "1", "order_state"),
        ("cancelled", "1", "order_state"),
        ("an unheard-of state", "1", "order_state"),
    ],
)
def test_order_rule_state_and_what_is_left(state: str, amount: str, rule: str | None) -> None:
    problem = check_order(order(state=state), Decimal(amount))
    assert (problem.details["rule"] if problem else None) == rule
    assert problem is None or problem.code is ErrorCode.INVALID_ARGUMENTS


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("amount", "today", "rule"),
    [
        ("50", "0", None),
        ("50.01", "0", "per_refund"),
        ("50", "50", None),
        ("50", "50.01", "per_day"),
        ("0.01", "100", "per_day"),
        ("0.01", "200", "per_day"),
    ],
)
def test_limit_rule_each_refund_and_each_day(amount: str, today: str, rule: str | None) -> None:
    problem = check_limits(Limits(Decimal(50), Decimal(100)), "CNY", Decimal(amount), Decimal(today))
    assert (problem.details["rule"] if problem else None) == rule
    assert problem is None or problem.code is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("G7")
def test_limit_rule_nothing_set_allows_nothing() -> None:
    problem = check_limits(None, "XTS", Decimal("0.01"), Decimal(0))
    assert problem is not None
    assert problem.code is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("G7")
@given(
    paid=st.integers(min_value=0, max_value=10**6),
    refunded=st.integers(min_value=0, max_value=10**6),
    amount=st.integers(min_value=1, max_value=10**6),
)
def test_order_rule_never_lets_more_out_than_came_in(paid: int, refunded: int, amount: int) -> None:
    cents = Decimal("0.01")
    candidate = order(str(paid * cents), str(refunded * cents))
    if check_order(candidate, amount * cents) is None:
        assert refunded + amount <= paid


def test_ticket_priority_medium_is_the_other_word_for_normal() -> None:
    ticket = {"title": "t", "team": "support", "description": "d"}
    assert CreateTicket.model_validate({**ticket, "priority": "medium"}).priority == "normal"
    with pytest.raises(ValidationError):
        CreateTicket.model_validate({**ticket, "priority": "whenever"})


def test_change_of_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least one"):
        ChangeOrder.model_validate({"order_id": "A1001"})


@pytest.mark.parametrize(
    "args",
    [
        {"entity": "payroll"},
        {"entity": "orders", "limit": 0},
        {"entity": "orders", "limit": 101},
        {"entity": "orders", "limit": "5"},
        {"entity": "tickets", "order_id": "A1001"},
        {"entity": "tickets", "customer_id": "C1001"},
    ],
)
def test_query_that_makes_no_sense_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        QueryBusinessData.model_validate(args)
