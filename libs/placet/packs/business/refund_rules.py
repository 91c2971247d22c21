"""What makes a refund right (G7): state, what is left to refund, and how much one person may refund."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from placet.contracts.errors import ErrorCode, PlacetError
from placet.packs.business.money import as_text
from placet.packs.business.orders import Order

REFUNDABLE_STATES = frozenset({"paid", "delivered"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one person may refund in the order's currency, per refund and per UTC day."""

    per_refund: Decimal
    per_day: Decimal


def check_order(order: Order, amount: Decimal) -> PlacetError | None:
    """What is wrong with refunding `amount` of `order`, or None."""
    if order.state not in REFUNDABLE_STATES:
        return PlacetError(
            ErrorCode.INVALID_ARGUMENTS,
            f"An order in state {order.state} cannot be refunded.",
            rule="order_state",
            state=order.state,
        )
    if amount > order.refundable:
        return PlacetError(
            ErrorCode.INVALID_ARGUMENTS,
            f"At most {as_text(order.refundable)} {order.currency} of this order can be refunded.",
            rule="refundable",
            refundable=as_text(order.refundable),
        )
    return None


def check_limits(limits: Limits | None, currency: str, amount: Decimal, today: Decimal) -> PlacetError | None:
    """`today` is what this person refunded on this day, this refund not included. No limits set: nothing may go out."""
    if limits is None:
        return PlacetError(
            ErrorCode.LIMIT_REACHED, f"No refund limit is set for {currency}, so none is allowed.", rule="no_limit"
        )
    if amount > limits.per_refund:
        return PlacetError(
            ErrorCode.LIMIT_REACHED,
            f"One refund may be at most {as_text(limits.per_refund)} {currency}.",
            rule="per_refund",
            limit=as_text(limits.per_refund),
        )
    if today + amount > limits.per_day:
        left = max(limits.per_day - today, Decimal(0))
        return PlacetError(
            ErrorCode.LIMIT_REACHED,
            f"Only {as_text(left)} {currency} can still be refunded today.",
            rule="per_day",
            limit=as_text(limits.per_day),
            left=as_text(left),
        )
    return None
