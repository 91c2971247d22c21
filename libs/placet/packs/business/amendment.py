"""`change_order`: another item or address while nothing has left the house; undone by the same tool."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business import changes
from placet.packs.business.access import Store
from placet.packs.business.arguments import ChangeOrder
from placet.packs.business.effects import look_up, run_once
from placet.packs.business.orders import Order, lock_order, served_order, view_order
from placet.packs.business.results import OrderChanged
from placet.toolkit import Hooks, Preview, ResourceView, RollbackPlan, ToolContext, ToolResult, ToolSpec, Verification

NAME = "change_order"
CHANGEABLE_STATES = frozenset({"placed", "paid"})


class ChangeOrderTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Change an order",
            description="Change the item or the delivery address of an order that has not been shipped yet.",
            args=ChangeOrder,
            result=OrderChanged,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.REVERSIBLE,
            risk=Risk.CRITICAL_FUNDS,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            undo_tool=NAME,
            hooks=Hooks(
                resource=self.resource,
                validate=self.validate,
                preview=self.preview,
                verify=self.verify,
                lookup=self.lookup,
                compensate=self.compensate,
                rehearse=self.rehearse,
            ),
        )

    async def resource(self, ctx: ToolContext, args: ChangeOrder) -> ResourceView:
        return await view_order(self._store, ctx, args.order_id)

    async def validate(self, ctx: ToolContext, args: ChangeOrder, resource: ResourceView | None) -> None:
        _check(await served_order(self._store, ctx, args.order_id), args)

    async def preview(self, ctx: ToolContext, args: ChangeOrder, resource: ResourceView | None) -> Preview:
        order = await served_order(self._store, ctx, args.order_id)
        before, after = changes.fields(order, args.changes()), args.changes()
        return Preview(
            summary=f"Change {' and '.join(after)} of order {order.order_id} of customer {order.customer_id}.",
            changes=tuple(Change(field=name, before=before[name], after=after[name]) for name in after),
            touched=(order.order_id,),
            blast_radius=(f"Customer {order.customer_id} gets something else, or gets it elsewhere.",),
            rollback=_rollback(order.order_id, before),
        )

    async def handle(self, ctx: ToolContext, args: ChangeOrder) -> ToolResult:
        async def work(connection: AsyncConnection) -> OrderChanged:
            order = await lock_order(connection, ctx, args.order_id)
            _check(order, args)
            return await changes.apply(connection, ctx, order, kind="change", after=args.changes())

        return await run_once(self._store, ctx, NAME, args, work)

    async def lookup(self, ctx: ToolContext, args: ChangeOrder) -> ToolResult | None:
        return await look_up(self._store, ctx, NAME)

    async def verify(self, ctx: ToolContext, args: ChangeOrder, result: ToolResult) -> Verification:
        return await changes.read_back(self._store, ctx, args.order_id, args.changes())

    async def compensate(self, ctx: ToolContext, args: ChangeOrder, result: ToolResult) -> RollbackPlan | None:
        return _rollback(args.order_id, result.data["before"])

    async def rehearse(self, ctx: ToolContext, args: ChangeOrder, resource: ResourceView | None) -> None:
        """Whether the order could be changed back: changing it leaves its state as it is."""
        _check_state(await served_order(self._store, ctx, args.order_id))


def _rollback(order_id: str, before: dict[str, str]) -> RollbackPlan | None:
    """Back to what it was. None when a field was empty before: the tool does not write empty fields."""
    if not all(before.values()):
        return None
    return RollbackPlan(tool=NAME, arguments={"order_id": order_id, **before})


def _check(order: Order, args: ChangeOrder) -> None:
    _check_state(order)
    if changes.fields(order, args.changes()) == args.changes():
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "The order already is like that.", rule="no_change")


def _check_state(order: Order) -> None:
    if order.state not in CHANGEABLE_STATES:
        raise PlacetError(
            ErrorCode.INVALID_ARGUMENTS,
            f"An order in state {order.state} cannot be changed any more.",
            rule="order_state",
            state=order.state,
        )
