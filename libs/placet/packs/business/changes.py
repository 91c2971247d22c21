"""Changing an order's own fields: what `cancel_order` and `change_order` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.packs.business.access import Store
from placet.packs.business.effects import key_of
from placet.packs.business.orders import Order, raise_version, reread_order
from placet.packs.business.results import OrderChanged
from placet.packs.business.tables import order_changes
from placet.toolkit import ToolContext, Verification

_COLUMNS = {"state": "state", "item": "item", "address": "shipping_address"}


def fields(order: Order, names: Mapping[str, str]) -> dict[str, str]:
    """What the order holds now in the fields of `names`."""
    return {name: str(getattr(order, name)) for name in names}


async def apply(
    connection: AsyncConnection,
    ctx: ToolContext,
    order: Order,
    *,
    kind: Literal["cancel", "change"],
    after: Mapping[str, str],
    reason: str = "",
) -> OrderChanged:
    """Write `after` to the locked order, count its version up and keep the change with its key."""
    before = fields(order, after)
    written = {_COLUMNS[name]: value for name, value in after.items()}
    version = await raise_version(connection, ctx.tenant, order, ctx.now, **written)
    await connection.execute(
        insert(order_changes).values(
            tenant=ctx.tenant,
            idempotency_key=key_of(ctx),
            order_id=order.order_id,
            kind=kind,
            reason=reason,
            before=before,
            after=dict(after),
            order_version=version,
            created_by=ctx.actor.id,
            created_at=ctx.now,
        )
    )
    state = after.get("state", order.state)
    return OrderChanged(order_id=order.order_id, state=state, before=before, after=dict(after), order_version=version)


async def read_back(store: Store, ctx: ToolContext, order_id: str, after: Mapping[str, str]) -> Verification:
    """The change under this key, and the order itself as long as nobody has changed it since."""
    columns = order_changes.c
    mine = (columns.tenant == ctx.tenant) & (columns.idempotency_key == key_of(ctx))
    async with store.database.transaction(read_only=True) as connection:
        row = (await connection.execute(select(columns.after, columns.order_version).where(mine))).one_or_none()
        if row is None:
            return Verification(ok=False, observed={"change": None})
        order = await reread_order(connection, ctx.tenant, order_id)
    found = fields(order, after)
    newest = order.version == row.order_version
    ok = row.after == dict(after) and (found == dict(after) if newest else order.version > row.order_version)
    return Verification(ok=ok, observed={"order_version": order.version, **found})
