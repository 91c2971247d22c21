"""`cancel_order`: the order ends; what was delivered or is on its way has to come back."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business import changes
from placet.packs.business.access import Store
from placet.packs.business.arguments import CancelOrder
from placet.packs.business.effects import look_up, run_once
from placet.packs.business.money import as_text
from placet.packs.business.orders import Order, lock_order, served_order, view_order
from placet.packs.business.results import OrderChanged
from placet.toolkit import Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec, Verification

NAME = "cancel_order"
_CANCELLED = {"state": "cancelled"}
_GOODS = {
    "shipped": "The goods are on their way: the carrier must be asked to bring them back.",
    "delivered": "The goods were delivered: the customer must return them.",
}


class CancelOrderTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Cancel an order",
            description=(
                "Cancel an order for good. No money moves: refund the customer before, "
                "because a cancelled order cannot be refunded."
            ),
            args=CancelOrder,
            result=OrderChanged,
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

    async def resource(self, ctx: ToolContext, args: CancelOrder) -> ResourceView:
        return await view_order(self._store, ctx, args.order_id)

    async def validate(self, ctx: ToolContext, args: CancelOrder, resource: ResourceView | None) -> None:
        _check(await served_order(self._store, ctx, args.order_id))

    async def preview(self, ctx: ToolContext, args: CancelOrder, resource: ResourceView | None) -> Preview:
        order = await served_order(self._store, ctx, args.order_id)
        kept = f"{as_text(order.refundable)} {order.currency}"
        reach = [
            f"Customer {order.customer_id} loses the order.",
            f"{kept} stay with the company; a cancelled order cannot be refunded by this system.",
            "There is no rollback: a cancelled order cannot be reopened by this system.",
        ]
        if order.state in _GOODS:
            reach.append(_GOODS[order.state])
        return Preview(
            summary=f"Cancel order {order.order_id} ({order.item}) of customer {order.customer_id}, now {order.state}.",
            changes=(Change(field="state", before=order.state, after=_CANCELLED["state"]),),
            touched=(order.order_id,),
            blast_radius=tuple(reach),
        )

    async def handle(self, ctx: ToolContext, args: CancelOrder) -> ToolResult:
        async def work(connection: AsyncConnection) -> OrderChanged:
            order = await lock_order(connection, ctx, args.order_id)
            _check(order)
            return await changes.apply(connection, ctx, order, kind="cancel", after=_CANCELLED, reason=args.reason)

        return await run_once(self._store, ctx, NAME, args, work)

    async def lookup(self, ctx: ToolContext, args: CancelOrder) -> ToolResult | None:
        return await look_up(self._store, ctx, NAME)

    async def verify(self, ctx: ToolContext, args: CancelOrder, result: ToolResult) -> Verification:
        return await changes.read_back(self._store, ctx, args.order_id, _CANCELLED)


def _check(order: Order) -> None:
    if order.state == _CANCELLED["state"]:
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "The order is already cancelled.", rule="order_state")
