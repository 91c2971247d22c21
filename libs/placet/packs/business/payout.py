"""A refund through a payment provider, in three steps that may each be the last of a process (G8).

1. *reserve*: one transaction checks the rules and writes the refund as `pending`, so that two refunds of one order can
   never be paid beyond what was paid in, however long the provider takes.
2. *pay*: the provider is asked under the effect's key. Silence may mean that it has paid: `outcome_unknown`.
3. *write down*: the row becomes `paid`, and the result is kept under the key.

Killed after 1, the next attempt finds its own reservation and goes on. Killed after 2, `find` asks the provider what
the key led to and does step 3. When the provider knows nothing of the key and nobody will ask again, `let_go`. When
the provider never answers, a person says what became of it: `let_go`, or `book`.
"""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError
from placet.packs.business import refund_rows
from placet.packs.business.access import Store
from placet.packs.business.arguments import RefundPayment
from placet.packs.business.effects import hold, key_of, look_up, run_once
from placet.packs.business.money import as_text
from placet.packs.business.orders import Order, lock_order, reread_order
from placet.packs.business.payments import DeclinedError, Payment, Payments
from placet.packs.business.refund_rows import Refund
from placet.packs.business.results import Refunded
from placet.toolkit import ToolContext, ToolResult, Verification


async def pay(store: Store, payments: Payments, ctx: ToolContext, tool: str, args: RefundPayment) -> ToolResult:
    """Raises `PlacetError`: a broken rule or a refusal of the provider (nothing is kept), or an end that is open."""
    done = await look_up(store, ctx, tool)
    if done is not None:
        return done
    row = await _reserve(store, ctx, args)
    try:
        payment = await payments.refund(
            key_of(ctx), order_id=row.order_id, amount=as_text(row.amount), currency=row.currency, reason=args.reason
        )
    except DeclinedError:
        await let_go(store, ctx)
        raise
    return await _write_down(store, ctx, tool, args, payment)


async def find(store: Store, payments: Payments, ctx: ToolContext, tool: str, args: RefundPayment) -> ToolResult | None:
    """What the provider made of the key, written down. Raises a retryable `PlacetError` when it does not answer."""
    payment = await payments.find(key_of(ctx))
    return None if payment is None else await _write_down(store, ctx, tool, args, payment)


async def let_go(store: Store, ctx: ToolContext) -> None:
    """The reservation counts no more. Nothing happens to a refund that was paid, or was let go of before."""
    async with store.database.transaction() as connection:
        row = await _still_pending(connection, ctx)
        if row is not None:
            await refund_rows.becomes(connection, ctx.tenant, row, "declined")
            await refund_rows.uncount(connection, ctx.tenant, row)


async def book(store: Store, ctx: ToolContext) -> None:
    """It was paid: a person says so, whom nobody at the provider contradicts. There is no number of theirs to keep."""
    async with store.database.transaction() as connection:
        row = await _still_pending(connection, ctx)
        if row is not None:
            await refund_rows.becomes(connection, ctx.tenant, row, "paid")


async def _still_pending(connection: AsyncConnection, ctx: ToolContext) -> Refund | None:
    """The refund under this key, held until the transaction ends; None once it has become anything else."""
    await hold(connection, ctx)
    row = await refund_rows.by_key(connection, ctx.tenant, key_of(ctx))
    return row if row is not None and row.state == "pending" else None


async def compare(payments: Payments, ctx: ToolContext, row: Refund, ours: Verification) -> Verification:
    """Our own books beside the provider's."""
    payment = await payments.find(key_of(ctx))
    if payment is None:
        return Verification(ok=False, observed=ours.observed | {"provider": None})
    theirs = {"amount": f"{payment.amount:f}", "currency": payment.currency, "status": payment.status}
    same = (payment.order_id, payment.amount, payment.currency, payment.status) == (
        row.order_id,
        row.amount,
        row.currency,
        "succeeded",
    )
    return Verification(ok=ours.ok and same, observed=ours.observed | {"provider": theirs})


def refunded(refund_id: str, order: Order, amount: Decimal, *, left: Decimal, version: int) -> Refunded:
    return Refunded(
        refund_id=refund_id,
        order_id=order.order_id,
        amount=amount,
        currency=order.currency,
        refundable=left,
        order_version=version,
    )


async def _reserve(store: Store, ctx: ToolContext, args: RefundPayment) -> Refund:
    async with store.database.transaction() as connection:
        await hold(connection, ctx)
        row = await refund_rows.by_key(connection, ctx.tenant, key_of(ctx))
        if row is None:
            order = await lock_order(connection, ctx, args.order_id)
            await refund_rows.reserve(connection, ctx, order, args.amount, args.reason, state="pending")
            row = await refund_rows.by_key(connection, ctx.tenant, key_of(ctx))
    if row is None or (row.order_id, row.amount) != (args.order_id, args.amount):
        raise PlacetError(ErrorCode.CONFLICT, "This idempotency key belongs to another call.")
    if row.state != "pending":
        raise PlacetError(ErrorCode.CONFLICT, f"This refund is {row.state} already.", rule="refund_state")
    return row


async def _write_down(store: Store, ctx: ToolContext, tool: str, args: RefundPayment, payment: Payment) -> ToolResult:
    async def work(connection: AsyncConnection) -> Refunded:
        row = await refund_rows.by_key(connection, ctx.tenant, key_of(ctx))
        if row is None:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The provider paid a refund that is not in our books.")
        await refund_rows.becomes(connection, ctx.tenant, row, "paid", payment.id)
        order = await reread_order(connection, ctx.tenant, row.order_id)
        return refunded(row.refund_id, order, row.amount, left=order.refundable, version=order.version)

    return await run_once(store, ctx, tool, args, work)
