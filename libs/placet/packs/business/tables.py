"""The tables of the schema `business` as the tools use them; the migrations in `placet.storage` define them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CHAR, Column, Date, DateTime, Integer, MetaData, Numeric, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import TypeEngine

metadata = MetaData(schema="business")


def _table(table: str, /, **columns: TypeEngine[Any]) -> Table:
    return Table(table, metadata, Column("tenant", Text, nullable=False), *(Column(n, t) for n, t in columns.items()))


_MONEY = Numeric(12, 2)
_TIME = DateTime(timezone=True)
_CURRENCY = CHAR(3)

customers = _table(
    "customers",
    customer_id=Text(),
    name=Text(),
    email=Text(),
    phone=Text(),
    served_by=ARRAY(Text),
    served_by_teams=ARRAY(Text),
)
orders = _table(
    "orders",
    order_id=Text(),
    customer_id=Text(),
    state=Text(),
    currency=_CURRENCY,
    paid_amount=_MONEY,
    item=Text(),
    shipping_address=Text(),
    version=Integer(),
    created_at=_TIME,
    updated_at=_TIME,
)
shipments = _table(
    "shipments",
    shipment_id=Text(),
    order_id=Text(),
    carrier=Text(),
    tracking_number=Text(),
    state=Text(),
    shipped_at=_TIME,
    delivered_at=_TIME,
)
refunds = _table(
    "refunds",
    refund_id=Text(),
    order_id=Text(),
    amount=_MONEY,
    currency=_CURRENCY,
    reason=Text(),
    state=Text(),
    provider_ref=Text(),
    idempotency_key=Text(),
    created_by=Text(),
    created_at=_TIME,
)
refund_limits = _table("refund_limits", actor=Text(), currency=_CURRENCY, per_refund=_MONEY, per_day=_MONEY)
refund_totals = _table("refund_totals", actor=Text(), day=Date(), currency=_CURRENCY, amount=_MONEY)
order_notes = _table(
    "order_notes",
    note_id=Text(),
    order_id=Text(),
    body=Text(),
    idempotency_key=Text(),
    created_by=Text(),
    created_at=_TIME,
)
order_changes = _table(
    "order_changes",
    order_id=Text(),
    kind=Text(),
    reason=Text(),
    before=JSONB(),
    after=JSONB(),
    order_version=Integer(),
    idempotency_key=Text(),
    created_by=Text(),
    created_at=_TIME,
)
tickets = _table(
    "tickets",
    ticket_id=Text(),
    title=Text(),
    priority=Text(),
    team=Text(),
    description=Text(),
    state=Text(),
    idempotency_key=Text(),
    created_by=Text(),
    created_at=_TIME,
)
messages = _table(
    "messages",
    message_id=Text(),
    recipient=Text(),
    subject=Text(),
    body=Text(),
    idempotency_key=Text(),
    created_by=Text(),
    created_at=_TIME,
)
tool_effects = _table(
    "tool_effects",
    idempotency_key=Text(),
    tool=Text(),
    args_digest=Text(),
    result=JSONB(),
    created_by=Text(),
    created_at=_TIME,
)
