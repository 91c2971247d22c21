"""Refunds as rows. A row counts against what is refundable from the moment it is reserved until it is let go of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.packs.business.effects import effect_id, key_of
from placet.packs.business.orders import Order, raise_version
from placet.packs.business.refund_limits import add_to_today, limits_of
from placet.packs.business.refund_rules import check_limits, check_order
from placet.packs.business.tables import refund_totals, refunds
from placet.toolkit import ToolContext


@dataclass(frozen=True, slots=True)
class Refund:
    """`state`: `pending` (reserved, the provider is being asked), `paid`, `declined` or `cancelled`."""

    refund_id: str
    order_id: str
    amount: Decimal
    currency: str
    state: str
    idempotency_key: str
    provider_ref: str | None
    created_by: str
    created_at: datetime


async def by_key(connection: AsyncConnection, tenant: str, key: str) -> Refund | None:
    return await _one(connection, tenant, refunds.c.idempotency_key == key)


async def by_id(connection: AsyncConnection, tenant: str, refund_id: str) -> Refund | None:
    return await _one(connection, tenant, refunds.c.refund_id == refund_id)


async def reserve(
    connection: AsyncConnection, ctx: ToolContext, order: Order, amount: Decimal, reason: str, *, state: str
) -> int:
    """Write the refund beside its locked order and count it; returns the order's new version.

    Raises `PlacetError` for a rule that this refund, or this refund with all before it, would break.
    """
    _raise_first(check_order(order, amount))
    total = await add_to_today(connection, ctx, order.currency, amount)
    limits = await limits_of(connection, ctx, order.currency)
    _raise_first(check_limits(limits, order.currency, amount, total - amount))
    await connection.execute(
        insert(refunds).values(
            tenant=ctx.tenant,
            refund_id=effect_id("R", ctx),
            order_id=order.order_id,
            amount=amount,
            currency=order.currency,
            reason=reason,
            state=state,
            idempotency_key=key_of(ctx),
            created_by=ctx.actor.id,
            created_at=ctx.now,
        )
    )
    return await raise_version(connection, ctx.tenant, order, ctx.now)


async def becomes(
    connection: AsyncConnection, tenant: str, refund: Refund, state: str, provider_ref: str | None = None
) -> None:
    here = (refunds.c.tenant == tenant) & (refunds.c.refund_id == refund.refund_id)
    values = {"state": state} | ({"provider_ref": provider_ref} if provider_ref else {})
    await connection.execute(update(refunds).where(here).values(**values))


async def uncount(connection: AsyncConnection, tenant: str, refund: Refund) -> None:
    """Give the day's limit back what was counted for a refund that never was paid."""
    columns = refund_totals.c
    mine = (columns.tenant == tenant) & (columns.actor == refund.created_by) & (columns.currency == refund.currency)
    query = update(refund_totals).where(mine, columns.day == _day(refund.created_at))
    await connection.execute(query.values(amount=columns.amount - refund.amount))


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


async def _one(connection: AsyncConnection, tenant: str, which: object) -> Refund | None:
    columns = [refunds.c[name] for name in Refund.__slots__]
    row = (await connection.execute(select(*columns).where(refunds.c.tenant == tenant, which))).one_or_none()  # type: ignore[arg-type]
    return Refund(*row) if row is not None else None


def _raise_first(*problems: Exception | None) -> None:
    for problem in problems:
        if problem is not None:
            raise problem
