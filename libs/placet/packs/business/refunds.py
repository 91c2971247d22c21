"""`refund_payment`: money back to the customer, once per key, never more than was paid.

Without a payment provider the row is the payment, in one transaction. With one (setting `payment_url`), `payout` asks
it to pay what the row has reserved.
"""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business import payout, refund_rows
from placet.packs.business.access import Store
from placet.packs.business.arguments import RefundPayment
from placet.packs.business.effects import effect_id, key_of, look_up, run_once
from placet.packs.business.money import as_text
from placet.packs.business.orders import (
    Order,
    lock_order,
    read_served_order,
    reread_order,
    served_order,
    view_order,
)
from placet.packs.business.refund_limits import limits_of, refunded_today
from placet.packs.business.refund_rules import check_limits, check_order
from placet.packs.business.results import Refunded
from placet.toolkit import (
    Hooks,
    Preview,
    ResourceView,
    RollbackPlan,
    ToolContext,
    ToolResult,
    ToolSpec,
    Verification,
)

NAME = "refund_payment"


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
                compensate=self.compensate,
                release=self.release,
                confirm=self.confirm,
            ),
        )

    async def resource(self, ctx: ToolContext, args: RefundPayment) -> ResourceView:
        return await view_order(self._store, ctx, args.order_id)

    async def validate(self, ctx: ToolContext, args: RefundPayment, resource: ResourceView | None) -> None:
        async with self._store.database.transaction(read_only=True) as connection:
            order = await read_served_order(connection, ctx.actor, args.order_id)
            limits = await limits_of(connection, ctx, order.currency)
            today = await refunded_today(connection, ctx, order.currency)
        for problem in (check_order(order, args.amount), check_limits(limits, order.currency, args.amount, today)):
            if problem is not None:
                raise problem

    async def preview(self, ctx: ToolContext, args: RefundPayment, resource: ResourceView | None) -> Preview:
        order = await served_order(self._store, ctx, args.order_id)
        # The refund's id comes from its key, so the undo can be named before there is anything to undo.
        can_cancel = self._store.payments is not None and ctx.idempotency_key is not None
        return _preview(order, args.amount, _undo(order.order_id, effect_id("R", ctx)) if can_cancel else None)

    async def handle(self, ctx: ToolContext, args: RefundPayment) -> ToolResult:
        if self._store.payments is not None:
            return await payout.pay(self._store, self._store.payments, ctx, NAME, args)

        async def work(connection: AsyncConnection) -> Refunded:
            order = await lock_order(connection, ctx, args.order_id)
            version = await refund_rows.reserve(connection, ctx, order, args.amount, args.reason, state="paid")
            return payout.refunded(
                effect_id("R", ctx), order, args.amount, left=order.refundable - args.amount, version=version
            )

        return await run_once(self._store, ctx, NAME, args, work)

    async def lookup(self, ctx: ToolContext, args: RefundPayment) -> ToolResult | None:
        done = await look_up(self._store, ctx, NAME)
        if done is not None or self._store.payments is None:
            return done
        return await payout.find(self._store, self._store.payments, ctx, NAME, args)

    async def release(self, ctx: ToolContext, args: RefundPayment) -> None:
        await payout.let_go(self._store, ctx)

    async def confirm(self, ctx: ToolContext, args: RefundPayment) -> None:
        await payout.book(self._store, ctx)

    async def verify(self, ctx: ToolContext, args: RefundPayment, result: ToolResult) -> Verification:
        """The refund under this key, as it stands, and that the order was not refunded beyond what was paid.

        With a provider, also what the provider says it has paid.
        """
        async with self._store.database.transaction(read_only=True) as connection:
            row = await refund_rows.by_key(connection, ctx.tenant, key_of(ctx))
            if row is None:
                return Verification(ok=False, observed={"refund": None})
            order = await reread_order(connection, ctx.tenant, args.order_id)
        same = (row.refund_id, row.order_id, row.amount) == (result.data["refund_id"], args.order_id, args.amount)
        observed = {"refund_id": row.refund_id, "order_id": row.order_id, "amount": as_text(row.amount)}
        ours = Verification(
            ok=same and order.refundable >= 0, observed=observed | {"refundable": as_text(order.refundable)}
        )
        return ours if self._store.payments is None else await payout.compare(self._store.payments, ctx, row, ours)

    async def compensate(self, ctx: ToolContext, args: RefundPayment, result: ToolResult) -> RollbackPlan | None:
        """Only a provider can take money back, as long as the customer has not got it."""
        return _undo(args.order_id, result.data["refund_id"]) if self._store.payments is not None else None


def _undo(order_id: str, refund_id: str) -> RollbackPlan:
    arguments = {"order_id": order_id, "refund_id": refund_id, "reason": "The refund reads back wrong."}
    return RollbackPlan(tool="cancel_refund", arguments=arguments)


def _preview(order: Order, amount: Decimal, undo: RollbackPlan | None) -> Preview:
    before, after = as_text(order.refundable), as_text(order.refundable - amount)
    way_back = (
        "There is no rollback: money paid out cannot be pulled back by this system."
        if undo is None
        else "The payment provider can cancel it only until the customer has been paid."
    )
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
            way_back,
        ),
        rollback=undo,
    )
