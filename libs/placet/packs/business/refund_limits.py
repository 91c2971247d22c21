"""What one person has refunded today, counted in the database: a person's refunds are counted in turn."""

from __future__ import annotations

from datetime import UTC, date
from decimal import Decimal

from sqlalchemy import literal, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.packs.business.refund_rules import Limits
from placet.packs.business.tables import refund_limits, refund_totals
from placet.toolkit import ToolContext

_EVERYBODY = "*"


async def limits_of(connection: AsyncConnection, ctx: ToolContext, currency: str) -> Limits | None:
    """The person's own limits, else everybody's."""
    columns = refund_limits.c
    mine = columns.actor == ctx.actor.id
    rows = await connection.execute(
        select(columns.per_refund, columns.per_day)
        .where(columns.tenant == ctx.tenant, columns.currency == currency, mine | (columns.actor == _EVERYBODY))
        .order_by(mine.desc())
        .limit(1)
    )
    row = rows.one_or_none()
    return Limits(row.per_refund, row.per_day) if row is not None else None


async def refunded_today(connection: AsyncConnection, ctx: ToolContext, currency: str) -> Decimal:
    columns = refund_totals.c
    mine = (columns.tenant == ctx.tenant) & (columns.actor == ctx.actor.id) & (columns.currency == currency)
    return await connection.scalar(select(columns.amount).where(mine, columns.day == _day(ctx))) or Decimal(0)


async def add_to_today(connection: AsyncConnection, ctx: ToolContext, currency: str, amount: Decimal) -> Decimal:
    """Count `amount` in and return the new total; the row stays locked, so one person's refunds are counted in turn."""
    new = upsert(refund_totals).values(
        tenant=ctx.tenant, actor=ctx.actor.id, day=_day(ctx), currency=currency, amount=amount
    )
    columns = refund_totals.c
    counted = new.on_conflict_do_update(
        index_elements=[columns.tenant, columns.actor, columns.day, columns.currency],
        set_={"amount": columns.amount + literal(amount, columns.amount.type)},
    ).returning(columns.amount)
    total: Decimal = (await connection.execute(counted)).scalar_one()
    return total


def _day(ctx: ToolContext) -> date:
    return ctx.now.astimezone(UTC).date()
