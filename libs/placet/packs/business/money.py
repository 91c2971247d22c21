"""Money as JSON numbers: exact to the cent, or not accepted at all."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

CENT = Decimal("0.01")
MAX_AMOUNT = Decimal(1_000_000_000)


def parse_amount(value: Any) -> Decimal:
    """An int or a finite float of at most two decimals, within ±10^9, as `Decimal`.

    A `Decimal` is taken too: it cannot come out of JSON, only from this program. Texts and booleans are refused: "299"
    and true are how a model guesses. Raises `ValueError`, which pydantic turns into a field error.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("must be a JSON number")
    if not isinstance(value, int) and not math.isfinite(value):
        raise ValueError("must be finite")
    # The shortest text of a float is what was written: 299.1 stays 299.1.
    amount = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if abs(amount) > MAX_AMOUNT:
        raise ValueError(f"must be at most {MAX_AMOUNT}")
    if amount != amount.quantize(CENT):
        raise ValueError("must have at most 2 decimals")
    return amount.quantize(CENT)


def parse_positive(value: Any) -> Decimal:
    """As `parse_amount`, and above zero."""
    amount = parse_amount(value)
    if amount <= 0:
        raise ValueError("must be greater than 0")
    return amount


def as_number(amount: Decimal) -> int | float:
    """The JSON number: 299 rather than 299.0, so that canonical arguments do not depend on how it was written."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def as_text(amount: Decimal) -> str:
    """For facts and sentences: always two decimals."""
    return f"{amount:.2f}"


_NUMBER = PlainSerializer(as_number, return_type=int | float, when_used="json")

Money = Annotated[Decimal, BeforeValidator(parse_amount), _NUMBER, WithJsonSchema({"type": "number"})]

Amount = Annotated[
    Decimal,
    BeforeValidator(parse_positive),
    _NUMBER,
    WithJsonSchema(
        {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": int(MAX_AMOUNT),
            "description": "A JSON number with at most 2 decimals, in the currency of the order.",
        }
    ),
]
