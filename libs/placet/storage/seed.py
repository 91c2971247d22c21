"""Loads the demo world's business data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

# In the order in which foreign keys allow; each file is `<table>.json`, a list of rows.
TABLES = ("customers", "orders", "shipments", "refund_limits")


async def seed_business(engine: AsyncEngine, path: Path) -> dict[str, int]:
    """Insert the rows of `path/<table>.json` that are not there yet; returns the rows added per table.

    What is there stays as it is: orders refunded since the last start keep their state. `engine` connects as the
    owner: the executor may not create customers or orders.
    """
    added: dict[str, int] = {}
    async with engine.begin() as connection:
        for table in TABLES:
            added[table] = 0
            for row in _rows(path / f"{table}.json"):
                columns = ", ".join(row)
                values = ", ".join(f":{column}" for column in row)
                statement = f"INSERT INTO business.{table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING"  # noqa: S608
                added[table] += (await connection.execute(text(statement), row)).rowcount
    return added


def _rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    for row in rows:
        if not all(name.isidentifier() for name in row):
            raise ValueError(f"{file}: a column name is not an identifier: {list(row)}")
    return rows
