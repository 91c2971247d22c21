"""At most one effect per idempotency key: the write, its first result and the key are one transaction (G8)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import rfc8785
from pydantic import BaseModel
from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError
from placet.packs.business.access import Store
from placet.packs.business.tables import tool_effects
from placet.toolkit import ToolContext, ToolResult

Work = Callable[[AsyncConnection], Awaitable[BaseModel]]


def key_of(ctx: ToolContext) -> str:
    """Raises `PlacetError` (internal) for a write without a key: that is the executor's mistake, not the caller's."""
    if not ctx.idempotency_key:
        raise PlacetError(ErrorCode.INTERNAL, "A write came without an idempotency key.")
    return ctx.idempotency_key


def effect_id(prefix: str, ctx: ToolContext) -> str:
    """The id of what a call creates, from its key: known before the effect, and the same however often it is tried."""
    digest = hashlib.sha256(f"{ctx.tenant}\0{key_of(ctx)}".encode()).hexdigest()
    return f"{prefix}-{digest[:16]}"


async def run_once(store: Store, ctx: ToolContext, tool: str, args: BaseModel, work: Work) -> ToolResult:
    """Run `work` and keep its result under the key, or return the first result of that key.

    Concurrent calls with one key wait for each other. `work` raises `PlacetError` to leave nothing behind.
    Raises `conflict` when the key was used for another call; `outcome_unknown` when the commit was not answered.
    """
    key, digest = key_of(ctx), _digest(args)
    async with store.database.transaction() as connection:
        await hold(connection, ctx)
        first = await _find(connection, ctx.tenant, key)
        if first is not None:
            if (first["tool"], first["args_digest"]) != (tool, digest):
                raise PlacetError(ErrorCode.CONFLICT, "This idempotency key belongs to another call.")
            return ToolResult(first["result"])
        data = (await work(connection)).model_dump(mode="json")
        row = {"tenant": ctx.tenant, "idempotency_key": key, "tool": tool, "args_digest": digest, "result": data}
        await connection.execute(insert(tool_effects).values(**row, created_by=ctx.actor.id, created_at=ctx.now))
    return ToolResult(data)


async def hold(connection: AsyncConnection, ctx: ToolContext) -> None:
    """Calls with one key wait for each other from here to the end of the transaction."""
    await connection.execute(select(func.pg_advisory_xact_lock(_lock_id(ctx.tenant, key_of(ctx)))))


async def look_up(store: Store, ctx: ToolContext, tool: str) -> ToolResult | None:
    """What the key already led to, or None."""
    async with store.database.transaction(read_only=True) as connection:
        first = await _find(connection, ctx.tenant, key_of(ctx))
    return ToolResult(first["result"]) if first is not None and first["tool"] == tool else None


async def _find(connection: AsyncConnection, tenant: str, key: str) -> Mapping[str, Any] | None:
    columns = tool_effects.c
    query = select(columns.tool, columns.args_digest, columns.result)
    rows = await connection.execute(query.where(columns.tenant == tenant, columns.idempotency_key == key))
    found = rows.mappings().one_or_none()
    return dict(found) if found is not None else None


def _digest(args: BaseModel) -> str:
    return "sha256:" + hashlib.sha256(rfc8785.dumps(args.model_dump(mode="json"))).hexdigest()


def _lock_id(tenant: str, key: str) -> int:
    """A 64-bit advisory lock; two keys that share one merely wait for each other."""
    return int.from_bytes(hashlib.sha256(f"effect\0{tenant}\0{key}".encode()).digest()[:8], "big", signed=True)
