"""`cancel_refund`: a payment provider takes a refund back before the customer has it. The undo of `refund_payment`."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business import refund_rows
from placet.packs.business.access import Store
from placet.packs.business.arguments import CancelRefund
from placet.packs.business.effects import key_of, look_up, run_once
from placet.packs.business.money import as_text
from placet.packs.business.orders import lock_order, raise_version, relock_order, reread_order, served_order, view_order
from placet.packs.business.payments import Payments
from placet.packs.business.refund_rows import Refund
from placet.packs.business.results import RefundCancelled
from placet.toolkit import Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec, Verification

NAME = "cancel_refund"


class CancelRefundTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Cancel a refund",
            description="Ask the payment provider to take a refund back that the customer has not got yet.",
            args=CancelRefund,
            result=RefundCancelled,
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
                rehearse=self.rehearse,
            ),
        )

    async def resource(self, ctx: ToolContext, args: CancelRefund) -> ResourceView:
        return await view_order(self._store, ctx, args.order_id)

    async def validate(self, ctx: ToolContext, args: CancelRefund, resource: ResourceView | None) -> None:
        self._provider()
        await served_order(self._store, ctx, args.order_id)
        _cancellable(await self._refund(ctx, args))

    async def rehearse(self, ctx: ToolContext, args: CancelRefund, resource: ResourceView | None) -> None:
        """The refund is not there yet; the provider that would have to cancel it must be."""
        await self._provider().find(key_of(ctx))

    async def preview(self, ctx: ToolContext, args: CancelRefund, resource: ResourceView | None) -> Preview:
        order = await served_order(self._store, ctx, args.order_id)
        refund = await self._refund(ctx, args)
        amount = f"{as_text(refund.amount)} {refund.currency}"
        return Preview(
            summary=f"Cancel the refund {refund.refund_id} of {amount} of order {order.order_id}.",
            changes=(
                Change(field="state", before=refund.state, after="cancelled"),
                Change(
                    field="refundable",
                    before=as_text(order.refundable),
                    after=as_text(order.refundable + refund.amount),
                ),
            ),
            touched=(order.order_id,),
            blast_radius=(f"Customer {order.customer_id} does not get {amount}.",),
        )

    async def handle(self, ctx: ToolContext, args: CancelRefund) -> ToolResult:
        payments = self._provider()
        async with self._store.database.transaction() as connection:
            await lock_order(connection, ctx, args.order_id)
        refund = await self._refund(ctx, args)
        _cancellable(refund)
        await payments.cancel(key_of(ctx), str(refund.provider_ref))
        return await self._write_down(ctx, args)

    async def lookup(self, ctx: ToolContext, args: CancelRefund) -> ToolResult | None:
        """The provider's own state of the refund tells, whoever cancelled it."""
        done = await look_up(self._store, ctx, NAME)
        if done is not None:
            return done
        async with self._store.database.transaction(read_only=True) as connection:
            refund = await refund_rows.by_id(connection, ctx.tenant, args.refund_id)
        if refund is None or refund.order_id != args.order_id:
            return None
        payment = await self._provider().find(refund.idempotency_key)
        cancelled = payment is not None and payment.status == "cancelled"
        return await self._write_down(ctx, args) if cancelled else None

    async def verify(self, ctx: ToolContext, args: CancelRefund, result: ToolResult) -> Verification:
        refund = await self._refund(ctx, args)
        payment = await self._provider().find(refund.idempotency_key)
        observed = {"refund": refund.state, "provider": payment.status if payment else None}
        return Verification(ok=set(observed.values()) == {"cancelled"}, observed=observed)

    async def _write_down(self, ctx: ToolContext, args: CancelRefund) -> ToolResult:
        async def work(connection: AsyncConnection) -> RefundCancelled:
            refund = await refund_rows.by_id(connection, ctx.tenant, args.refund_id)
            if refund is None:
                raise not_found()
            order = await relock_order(connection, ctx.tenant, args.order_id)
            await refund_rows.becomes(connection, ctx.tenant, refund, "cancelled")
            version = await raise_version(connection, ctx.tenant, order, ctx.now)
            left = (await reread_order(connection, ctx.tenant, args.order_id)).refundable
            return RefundCancelled(
                refund_id=refund.refund_id,
                order_id=order.order_id,
                state="cancelled",
                refundable=left,
                order_version=version,
            )

        return await run_once(self._store, ctx, NAME, args, work)

    def _provider(self) -> Payments:
        """Raises `PlacetError`: `invalid_arguments` without a provider, `dependency_unavailable` in a closed pack."""
        _, payments = self._store.database, self._store.payments
        if payments is None:
            raise PlacetError(
                ErrorCode.INVALID_ARGUMENTS, "Without a payment provider a refund is final.", rule="no_provider"
            )
        return payments

    async def _refund(self, ctx: ToolContext, args: CancelRefund) -> Refund:
        """Raises `not_found` for a refund that is absent, or of another order than the one that was checked."""
        async with self._store.database.transaction(read_only=True) as connection:
            refund = await refund_rows.by_id(connection, ctx.tenant, args.refund_id)
        if refund is None or refund.order_id != args.order_id:
            raise not_found()
        return refund


def _cancellable(refund: Refund) -> None:
    if refund.state != "paid" or refund.provider_ref is None:
        raise PlacetError(
            ErrorCode.INVALID_ARGUMENTS,
            f"A refund that is {refund.state} cannot be cancelled.",
            rule="refund_state",
            state=refund.state,
        )
