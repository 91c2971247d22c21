"""`run_readonly_sql`: one checked SELECT over views of the tenant, in a read-only transaction with short limits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import exc

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Change
from placet.contracts.tools import Risk, Sensitivity
from placet.packs.business.access import Store
from placet.packs.business.arguments import RunReadonlySql
from placet.packs.business.money import as_number
from placet.packs.business.results import Rows
from placet.packs.business.sql_guard import SqlRefusedError, compile_select
from placet.toolkit import Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec

NAME = "run_readonly_sql"
SCHEMA = "business_read"
MAX_ROWS = 200
MAX_BYTES = 262_144
STATEMENT_TIMEOUT_MS = 2000
MAX_EXACT = 2**53 - 1  # the greatest integer that every JSON reader keeps

# What the views offer. No personal fields: a query could rename them and so walk past masking by name.
VIEWS: dict[str, frozenset[str]] = {
    "customers": frozenset({"customer_id", "served_by", "served_by_teams"}),
    "orders": frozenset(
        {
            "order_id",
            "customer_id",
            "state",
            "currency",
            "paid_amount",
            "item",
            "version",
            "created_at",
            "updated_at",
        }
    ),
    "refunds": frozenset({"refund_id", "order_id", "amount", "currency", "reason", "created_by", "created_at"}),
    "shipments": frozenset({"shipment_id", "order_id", "carrier", "state", "shipped_at", "delivered_at"}),
    "tickets": frozenset({"ticket_id", "title", "priority", "team", "state", "created_by", "created_at"}),
}

Cell = str | int | float | bool | None


class RunReadonlySqlTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Run a read-only SQL query",
            description=(
                "Run one PostgreSQL SELECT over this tenant's business data. "
                + "; ".join(f"{name}({', '.join(sorted(columns))})" for name, columns in VIEWS.items())
            ),
            args=RunReadonlySql,
            result=Rows,
            handler=self.handle,
            sensitivity=Sensitivity.SENSITIVE_READ,
            risk=Risk.CRITICAL_SYSTEM,
            timeout_s=5.0,
            hooks=Hooks(validate=self.validate, preview=self.preview),
        )

    async def validate(self, ctx: ToolContext, args: RunReadonlySql, resource: ResourceView | None) -> None:
        _compile(args.sql)

    async def preview(self, ctx: ToolContext, args: RunReadonlySql, resource: ResourceView | None) -> Preview:
        return Preview(
            summary="Run one read-only query over the business data of the tenant.",
            changes=(Change(field="statement", after=_compile(args.sql)),),
            blast_radius=(
                f"Reads across all customers of the tenant, without personal fields; at most {MAX_ROWS} rows.",
                "Nothing is changed.",
            ),
        )

    async def handle(self, ctx: ToolContext, args: RunReadonlySql) -> ToolResult:
        statement = _compile(args.sql)
        local = {"placet.tenant": ctx.tenant, "statement_timeout": str(STATEMENT_TIMEOUT_MS), "work_mem": "4MB"}
        try:
            async with self._store.reader.transaction(local=local, read_only=True) as connection:
                # Without parameters the driver leaves per cent signs and colons in texts alone.
                plain = await connection.execution_options(no_parameters=True)
                result = await plain.exec_driver_sql(statement)
                columns, rows = list(result.keys()), result.fetchall()
        except exc.DBAPIError as error:
            # The database's own text may quote data; its code says enough.
            state = getattr(error.orig, "sqlstate", None)
            raise PlacetError(
                ErrorCode.INVALID_ARGUMENTS, f"The database refused the query ({state}).", sqlstate=state
            ) from error
        return ToolResult(_bounded(columns, rows).model_dump(mode="json"))


def _compile(sql: str) -> str:
    try:
        return compile_select(sql, VIEWS, SCHEMA, MAX_ROWS + 1)
    except SqlRefusedError as error:
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, f"This query is not allowed: {error}.", rule="sql") from error


def _bounded(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Rows:
    kept: list[list[Cell]] = []
    size = 0
    for row in rows[:MAX_ROWS]:
        cells = [_cell(value) for value in row]
        size += sum(len(str(cell)) for cell in cells)
        if size > MAX_BYTES:
            break
        kept.append(cells)
    return Rows(columns=list(columns), rows=kept, truncated=len(kept) < len(rows))


def _cell(value: Any) -> Cell:
    if isinstance(value, Decimal):
        return as_number(value) if value.is_finite() and abs(value) <= MAX_EXACT else str(value)
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        return str(value)
    if isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
