"""An order as the tools see it: read in the actor's view, or locked for a write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.packs.business import access
from placet.packs.business.access import Store
from placet.packs.business.money import as_text
from placet.packs.business.tables import customers, orders, refunds
from placet.toolkit import Actor, ResourceView, ToolContext

_OWNER = (customers.c.tenant == orders.c.tenant) & (customers.c.customer_id == orders.c.customer_id)


@dataclass(frozen=True, slots=True)
class Order:
    """Amounts in `currency`. `servers` are the people and teams who serve its customer."""

    order_id: str
    customer_id: str
    state: str
    currency: str
    paid: Decimal
    refunded: Decimal
    item: str
    address: str
    version: int
    servers: tuple[str, ...]

    @property
    def refundable(self) -> Decimal:
        return self.paid - self.refunded

    def view(self, tenant: str) -> ResourceView:
        """The resource for policy and packet. `paid` is the name policy reads, `paid_amount` the column's."""
        facts = {
            "tenant": tenant,
            "state": self.state,
            "currency": self.currency,
            "paid": as_text(self.paid),
            "paid_amount": as_text(self.paid),
            "refunded": as_text(self.refunded),
            "refundable": as_text(self.refundable),
            "served_by": list(self.servers),
            "customer_id": self.customer_id,
        }
        return ResourceView(type="order", id=self.order_id, version=str(self.version), tenant=tenant, facts=facts)


async def view_order(store: Store, ctx: ToolContext, order_id: str) -> ResourceView:
    """The order as the actor may see it. Raises `not_found` for absent, foreign and unserved alike (I3)."""
    async with store.database.transaction(read_only=True) as connection:
        return (await _one(connection, _query(order_id, access.visible_to(ctx.actor)))).view(ctx.tenant)


async def served_order(store: Store, ctx: ToolContext, order_id: str) -> Order:
    """The order if the actor serves its customer. Raises `not_found` otherwise."""
    async with store.database.transaction(read_only=True) as connection:
        return await read_served_order(connection, ctx.actor, order_id)


async def read_served_order(connection: AsyncConnection, actor: Actor, order_id: str) -> Order:
    """As `served_order`, inside a transaction that reads more."""
    return await _one(connection, _query(order_id, access.served_by(actor)))


async def reread_order(connection: AsyncConnection, tenant: str, order_id: str) -> Order:
    """The order for the read-back of an effect: whoever may still see it, the effect took place."""
    return await _one(connection, _query(order_id, customers.c.tenant == tenant))


async def lock_order(connection: AsyncConnection, ctx: ToolContext, order_id: str) -> Order:
    """The served order under a row lock that lasts until the transaction ends: writers of one order take turns.

    Raises `not_found` as above, and `conflict` when it is no longer the version that was decided on.
    """
    served = access.served_by(ctx.actor)
    # The lock first and the sums after it: a sum read before the wait would miss what the other writer added.
    lock = select(orders.c.order_id).select_from(orders.join(customers, _OWNER))
    await connection.execute(lock.where(orders.c.order_id == order_id, served).with_for_update(of=orders))
    order = await _one(connection, _query(order_id, served))
    # The executor names the version it re-read, the one that people agreed to; without one the rules still hold.
    expected = ctx.resource_version
    if expected is not None and expected != str(order.version):
        diff = {"resource": {"signed": f"order/{order_id}@{expected}", "now": f"order/{order_id}@{order.version}"}}
        raise PlacetError(ErrorCode.CONFLICT, "The order changed meanwhile.", diff=diff)
    return order


async def relock_order(connection: AsyncConnection, tenant: str, order_id: str) -> Order:
    """As `reread_order`, under the row lock of `lock_order`: for a write that follows an effect outside."""
    columns = orders.c
    lock = select(columns.order_id).where(columns.tenant == tenant, columns.order_id == order_id)
    await connection.execute(lock.with_for_update())
    return await reread_order(connection, tenant, order_id)


async def raise_version(connection: AsyncConnection, tenant: str, order: Order, now: datetime, **changes: str) -> int:
    """Write `changes` to a locked order and count its version up; returns the new version."""
    here = (orders.c.tenant == tenant) & (orders.c.order_id == order.order_id)
    version = order.version + 1
    await connection.execute(update(orders).where(here).values(version=version, updated_at=now, **changes))
    return version


def refunded_sum() -> ColumnElement[Decimal]:
    """What was refunded of the order of the enclosing statement, or is reserved for being refunded."""
    here = (refunds.c.tenant == orders.c.tenant) & (refunds.c.order_id == orders.c.order_id)
    here &= refunds.c.state.in_(("pending", "paid"))
    total = select(func.coalesce(func.sum(refunds.c.amount), 0)).where(here)
    return total.correlate(orders).scalar_subquery()


def _query(order_id: str, allowed: ColumnElement[bool]) -> Select[tuple[object, ...]]:
    columns = orders.c
    servers = func.array_cat(customers.c.served_by, customers.c.served_by_teams)
    return (
        select(
            columns.order_id,
            columns.customer_id,
            columns.state,
            columns.currency,
            columns.paid_amount.label("paid"),
            refunded_sum().label("refunded"),
            columns.item,
            columns.shipping_address.label("address"),
            columns.version,
            servers.label("servers"),
        )
        .select_from(orders.join(customers, _OWNER))
        .where(columns.order_id == order_id, allowed)
    )


async def _one(connection: AsyncConnection, query: Select[tuple[object, ...]]) -> Order:
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        raise not_found()
    values = dict(row)
    return Order(**{**values, "servers": tuple(values["servers"])})
