"""`refund_payment`: money back to the customer, once per key, never more than was paid."""

from __future__ import annotations

from datetime import UTC, date
from decimal import Decimal

from sqlalchemy import insert, literal, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business.access import Store
from placet.packs.business.arguments import RefundPayment
from placet.packs.business.effects import effect_id, key_of, look_up, run_once
from placet.packs.business.money import as_text
from placet.packs.business.orders import (
    Order,
    lock_order,
    raise_version,
    read_served_order,
    reread_order,
    served_order,
    view_order,
)
from placet.packs.business.refund_rules import Limits, check_limits, check_order
from placet.packs.business.results import Refunded
from placet.packs.business.tables import refund_limits, refund_totals, refunds
from placet.toolkit import Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec, Verification

NAME = "refund_payment"
_EVERYBODY = "*"


class RefundPaymentTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Refund a payment",
            description=(
                "Pay back part or all of what a customer paid for an order. Money cannot be pulled back. "
                "Read the order first; ask for no more than is refundable."
            ),
            args=RefundPayment,
            result=Refunded,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.IRREVERSIBLE,
            risk=Risk.CRITICAL_FUNDS,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            hooks=Hooks(
                resource=self.resource,
                validate=self.validate,
                preview=self.preview,
                verify=self.verify,
                lookup=self.lookup,
            ),
        )

    async def resource(self, ctx: ToolContext, args: RefundPayment) -> ResourceView:
        return await view_order(self._store, ctx, args.order_id)

    async def validate(self, ctx: ToolContext, args: RefundPayment, resource: ResourceView | None) -> None:
        async with self._store.database.transaction(read_only=True) as connection:
            order = await read_served_order(connection, ctx.actor, args.order_id)
            limits = await _limits(connection, ctx, order.currency)
            today = await _refunded_today(connection, ctx, order.currency)
        _raise_first(check_order(order, args.amount), check_limits(limits, order.currency, args.amount, today))

    async def preview(self, ctx: ToolContext, args: RefundPayment, resource: ResourceView | None) -> Preview:
        order = await served_order(self._store, ctx, args.order_id)
        return _preview(order, args.amount)

    async def handle(self, ctx: ToolContext, args: RefundPayment) -> ToolResult:
        async def work(connection: AsyncConnection) -> Refunded:
            order = await lock_order(connection, ctx, args.order_id)
            limits = await _limits(connection, ctx, order.currency)
            _raise_first(check_order(order, args.amount))
            total = await _add_to_today(connection, ctx, order.currency, args.amount)
            _raise_first(check_limits(limits, order.currency, args.amount, total - args.amount))
            return await _pay_back(connection, ctx, order, args)

        return await run_once(self._store, ctx, NAME, args, work)

    async def lookup(self, ctx: ToolContext, args: RefundPayment) -> ToolResult | None:
        return await look_up(self._store, ctx, NAME)

    async def verify(self, ctx: ToolContext, args: RefundPayment, result: ToolResult) -> Verification:
        """The refund under this key, as it stands, and that the order was not refunded beyond what was paid."""
        columns = refunds.c
        query = select(columns.refund_id, columns.order_id, columns.amount)
        async with self._store.database.transaction(read_only=True) as connection:
            rows = await connection.execute(
                query.where(columns.tenant == ctx.tenant, columns.idempotency_key == key_of(ctx))
            )
            row = rows.one_or_none()
            if row is None:
                return Verification(ok=False, observed={"refund": None})
            order = await reread_order(connection, ctx.tenant, args.order_id)
        same = (row.refund_id, row.order_id, row.amount) == (result.data["refund_id"], args.order_id, args.amount)
        observed = {"refund_id": row.refund_id, "order_id": row.order_id, "amount": as_text(row.amount)}
        return Verification(
            ok=same and order.refundable >= 0, observed=observed | {"refundable": as_text(order.refundable)}
        )


def _raise_first(*problems: Exception | None) -> None:
    for problem in problems:
        if problem is not None:
            raise problem


def _preview(order: Order, amount: Decimal) -> Preview:
    before, after = as_text(order.refundable), as_text(order.refundable - amount)
    return Preview(
        summary=(
            f"Refund {as_text(amount)} {order.currency} of order {order.order_id} to customer {order.customer_id}; "
            f"what can still be refunded goes from {before} to {after}."
        ),
        changes=(
            Change(field="refundable", before=before, after=after),
            Change(field="refunded", before=as_text(order.refunded), after=as_text(order.refunded + amount)),
        ),
        touched=(order.order_id,),
        blast_radius=(
            f"{as_text(amount)} {order.currency} leave the company's account.",
            f"Customer {order.customer_id} is paid.",
            "There is no rollback: money paid out cannot be pulled back by this system.",
        ),
    )


async def _limits(connection: AsyncConnection, ctx: ToolContext, currency: str) -> Limits | None:
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


def _day(ctx: ToolContext) -> date:
    return ctx.now.astimezone(UTC).date()


async def _refunded_today(connection: AsyncConnection, ctx: ToolContext, currency: str) -> Decimal:
    columns = refund_totals.c
    mine = (columns.tenant == ctx.tenant) & (columns.actor == ctx.actor.id) & (columns.currency == currency)
    return await connection.scalar(select(columns.amount).where(mine, columns.day == _day(ctx))) or Decimal(0)


async def _add_to_today(connection: AsyncConnection, ctx: ToolContext, currency: str, amount: Decimal) -> Decimal:
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


async def _pay_back(connection: AsyncConnection, ctx: ToolContext, order: Order, args: RefundPayment) -> Refunded:
    refund_id = effect_id("R", ctx)
    await connection.execute(
        insert(refunds).values(
            tenant=ctx.tenant,
            refund_id=refund_id,
            order_id=order.order_id,
            amount=args.amount,
            currency=order.currency,
            reason=args.reason,
            idempotency_key=key_of(ctx),
            created_by=ctx.actor.id,
            created_at=ctx.now,
        )
    )
    version = await raise_version(connection, ctx.tenant, order, ctx.now)
    return Refunded(
        refund_id=refund_id,
        order_id=order.order_id,
        amount=args.amount,
        currency=order.currency,
        refundable=order.refundable - args.amount,
        order_version=version,
    )
