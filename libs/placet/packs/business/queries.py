"""`query_business_data`: pages of records, of customers whom the actor may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, and_, exists, select, tuple_

from placet.contracts.tools import Risk, Sensitivity
from placet.packs.business import access
from placet.packs.business.access import Store
from placet.packs.business.arguments import Entity, QueryBusinessData
from placet.packs.business.cursor import decode, encode
from placet.packs.business.orders import refunded_sum
from placet.packs.business.results import (
    BusinessData,
    CustomerItem,
    Item,
    OrderItem,
    RefundItem,
    ShipmentItem,
    TicketItem,
)
from placet.packs.business.tables import customers, orders, refunds, shipments, tickets
from placet.toolkit import Actor, ToolContext, ToolResult, ToolSpec

NAME = "query_business_data"


@dataclass(frozen=True, slots=True)
class Listing:
    """How one kind of record is read. `keys` order the pages; the last one is unique within the tenant."""

    source: FromClause
    columns: Sequence[ColumnElement[Any]]
    keys: Sequence[ColumnElement[Any]]
    item: type[Item]
    newest_first: bool = False


_OF_ORDER = and_(customers.c.tenant == orders.c.tenant, customers.c.customer_id == orders.c.customer_id)
_ORDERS = orders.join(customers, _OF_ORDER)


def _beside_order(table: Any) -> FromClause:
    return _ORDERS.join(table, and_(table.c.tenant == orders.c.tenant, table.c.order_id == orders.c.order_id))


def _listings() -> dict[Entity, Listing]:
    o, r, s, c, t = orders.c, refunds.c, shipments.c, customers.c, tickets.c
    refunded = refunded_sum()
    money = (o.paid_amount, refunded.label("refunded_amount"), (o.paid_amount - refunded).label("refundable"))
    order = (o.order_id, o.customer_id, o.state, o.item, o.currency, o.shipping_address.label("address"), o.version)
    refund = (r.refund_id, r.order_id, r.amount, r.currency, r.reason, r.state, r.created_by, r.created_at)
    shipment = (s.shipment_id, s.order_id, s.carrier, s.tracking_number, s.state, s.shipped_at, s.delivered_at)
    ticket = (t.ticket_id, t.title, t.priority, t.team, t.description, t.state, t.created_by, t.created_at)
    return {
        "orders": Listing(_ORDERS, (*order, *money, o.created_at), (o.order_id,), OrderItem),
        "refunds": Listing(_beside_order(refunds), refund, (r.created_at, r.refund_id), RefundItem, True),
        "shipments": Listing(_beside_order(shipments), shipment, (s.shipment_id,), ShipmentItem),
        "customers": Listing(customers, (c.customer_id, c.name, c.email, c.phone), (c.customer_id,), CustomerItem),
        "tickets": Listing(tickets, ticket, (t.created_at, t.ticket_id), TicketItem, True),
    }


LISTINGS = _listings()


class QueryBusinessDataTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Look up business data",
            description=(
                "List orders, refunds, shipments, customers or tickets that the user may see, "
                "optionally of one order or one customer."
            ),
            args=QueryBusinessData,
            result=BusinessData,
            handler=self.handle,
            sensitivity=Sensitivity.READ,
            risk=Risk.MEDIUM,
        )

    async def handle(self, ctx: ToolContext, args: QueryBusinessData) -> ToolResult:
        listing = LISTINGS[args.entity]
        query = _page(listing, ctx.actor, args)
        async with self._store.database.transaction(read_only=True) as connection:
            rows = (await connection.execute(query)).mappings().all()
        page = rows[: args.limit]
        items = [_item(listing, row) for row in page]
        more = len(rows) > args.limit
        following = encode(args.entity, [page[-1][f"key_{i}"] for i in range(len(listing.keys))]) if more else None
        return ToolResult(BusinessData(items=items, next=following).model_dump(mode="json"))


def _page(listing: Listing, actor: Actor, args: QueryBusinessData) -> Select[Any]:
    keys = [key.label(f"key_{i}") for i, key in enumerate(listing.keys)]
    query = select(*listing.columns, *keys).select_from(listing.source).where(*_conditions(actor, args))
    if args.cursor is not None:
        after = decode(args.entity, args.cursor, [key.type for key in listing.keys])
        position, here = tuple_(*after), tuple_(*listing.keys)
        query = query.where(here < position if listing.newest_first else here > position)
    ordered = [key.desc() for key in listing.keys] if listing.newest_first else list(listing.keys)
    return query.order_by(*ordered).limit(args.limit + 1)


def _conditions(actor: Actor, args: QueryBusinessData) -> list[ColumnElement[bool]]:
    if args.entity == "tickets":
        return [access.tickets_visible_to(actor)]
    found = [access.visible_to(actor)]
    if args.customer_id is not None:
        found.append(customers.c.customer_id == args.customer_id)
    if args.order_id is not None and args.entity == "customers":
        found.append(exists().where(_OF_ORDER, orders.c.order_id == args.order_id))
    elif args.order_id is not None:
        found.append(orders.c.order_id == args.order_id)
    return found


def _item(listing: Listing, row: Mapping[Any, Any]) -> Item:
    return listing.item(**{name: _plain(row[name]) for name in listing.item.model_fields})


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
