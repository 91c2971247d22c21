"""What the business tools answer. Amounts are JSON numbers, times are ISO 8601 in UTC.

`email`, `phone` and `address` are the names under which policy masks personal fields.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from placet.packs.business.money import Money


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OrderItem(Answer):
    order_id: str
    customer_id: str
    state: str
    item: str
    currency: str
    paid_amount: Money
    refunded_amount: Money
    refundable: Money
    address: str
    version: int
    created_at: str


class RefundItem(Answer):
    refund_id: str
    order_id: str
    amount: Money
    currency: str
    reason: str
    state: str
    created_by: str
    created_at: str


class ShipmentItem(Answer):
    shipment_id: str
    order_id: str
    carrier: str
    tracking_number: str
    state: str
    shipped_at: str | None
    delivered_at: str | None


class CustomerItem(Answer):
    customer_id: str
    name: str
    email: str
    phone: str


class TicketItem(Answer):
    ticket_id: str
    title: str
    priority: str
    team: str
    description: str
    state: str
    created_by: str
    created_at: str


Item = OrderItem | RefundItem | ShipmentItem | CustomerItem | TicketItem


class BusinessData(Answer):
    """One page; `next` is the cursor of the following one."""

    items: list[Item]
    next: str | None = None


class Refunded(Answer):
    """`refundable` is what is left on the order after this refund."""

    refund_id: str
    order_id: str
    amount: Money
    currency: str
    refundable: Money
    order_version: int


class RefundCancelled(Answer):
    """`refundable` is what is left on the order now that the refund counts no more."""

    refund_id: str
    order_id: str
    state: Literal["cancelled"]
    refundable: Money
    order_version: int


class OrderChanged(Answer):
    """`before` and `after` hold the fields that were changed."""

    order_id: str
    state: str
    before: dict[str, str]
    after: dict[str, str]
    order_version: int


class NoteAdded(Answer):
    note_id: str
    order_id: str
    order_version: int


class TicketCreated(Answer):
    ticket_id: str
    team: str
    state: Literal["open"]


class ApprovalRequested(Answer):
    request_id: str
    subject: str
    state: Literal["open"]


class MessageSent(Answer):
    message_id: str
    customer_id: str


class Rows(Answer):
    """`truncated`: there were more rows or more bytes than a call returns."""

    columns: list[str]
    rows: list[list[str | int | float | bool | None]]
    truncated: bool
