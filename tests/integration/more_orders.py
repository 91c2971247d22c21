"""More orders of a customer of Alice's, so that tests do not meet on the seeded ones."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_COPY = text("""
INSERT INTO business.orders (
    tenant, order_id, customer_id, state, currency, paid_amount, item, shipping_address, created_at)
SELECT tenant, new_id, customer_id, state, currency, paid_amount, item, shipping_address, created_at
FROM business.orders, unnest(CAST(:ids AS text[])) AS new_id
WHERE tenant = 'acme' AND order_id = 'A1004'
""")


async def copy_order(connection: AsyncConnection, ids: Sequence[str]) -> None:
    """Copies of order A1004 of acme under these ids, by a connection that may write orders."""
    await connection.execute(_COPY, {"ids": list(ids)})
