"""Rebuilds the index from the originals while searches go on.

A version is read and embedded beside what is searched, and its chunks change places in one commit: a search finds the
old ones or the new ones, never a part. A process that dies has switched a version or has not; whoever takes over goes
on with the next one that waits. A version that cannot be read any more keeps the chunks it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge import scope as scopes
from placet.knowledge.errors import NotFound, ParseError
from placet.knowledge.indexing import Indexing
from placet.knowledge.models import Rebuild
from placet.knowledge.ports import Database

_OPEN = text("SELECT rebuild_id FROM knowledge.rebuilds WHERE tenant = :tenant AND finished_at IS NULL")

_START = text("""
INSERT INTO knowledge.rebuilds (tenant, rebuild_id, actor) VALUES (:tenant, :rebuild_id, :actor)
ON CONFLICT DO NOTHING
""")

# What is searched first; drafts and archived versions too, for they may be published.
_LIST = text("""
INSERT INTO knowledge.rebuild_items (tenant, rebuild_id, document_id, version, urgent)
SELECT tenant, :rebuild_id, document_id, version, status = 'published'
FROM knowledge.versions WHERE tenant = :tenant AND state = 'ready'
""")

_STATUS = text("""
SELECT r.rebuild_id, r.finished_at IS NOT NULL AS finished, count(i.version) AS total,
       count(*) FILTER (WHERE i.state = 'done') AS done, count(*) FILTER (WHERE i.state = 'failed') AS failed
FROM knowledge.rebuilds r LEFT JOIN knowledge.rebuild_items i USING (tenant, rebuild_id)
WHERE r.tenant = :tenant AND r.rebuild_id = :rebuild_id GROUP BY r.tenant, r.rebuild_id, r.finished_at
""")

_NEXT = text("""
SELECT document_id, version FROM knowledge.rebuild_items
WHERE tenant = :tenant AND rebuild_id = :rebuild_id AND state = 'waiting'
ORDER BY urgent DESC, document_id, version LIMIT 1
""")

_SETTLE = text("""
UPDATE knowledge.rebuild_items SET state = :state, reason = :reason
WHERE tenant = :tenant AND rebuild_id = :rebuild_id AND document_id = :document_id AND version = :version
""")

_FINISH = text("""
UPDATE knowledge.rebuilds SET finished_at = now()
WHERE tenant = :tenant AND rebuild_id = :rebuild_id AND finished_at IS NULL
""")

Report = Callable[[Rebuild], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rebuilding:
    database: Database
    indexing: Indexing

    async def start(self, tenant: str, rebuild_id: str, actor: str) -> Rebuild:
        """A rebuilding of everything the tenant has, or the one that is going on."""
        where = {"tenant": tenant, "rebuild_id": rebuild_id}
        async with self._transaction(tenant) as connection:
            if (await connection.execute(_START, where | {"actor": actor})).rowcount:
                await connection.execute(_LIST, where)
            going_on = (await connection.execute(_OPEN, where)).scalar_one_or_none()
        return await self.status(tenant, going_on or rebuild_id)

    async def status(self, tenant: str, rebuild_id: str) -> Rebuild:
        """Raises NotFound."""
        async with self._transaction(tenant) as connection:
            row = (await connection.execute(_STATUS, {"tenant": tenant, "rebuild_id": rebuild_id})).one_or_none()
        if row is None:
            raise NotFound
        return Rebuild(row.rebuild_id, row.total, row.done, row.failed, row.finished)

    async def run(self, tenant: str, rebuild_id: str, report: Report) -> Rebuild:
        """Rebuild what waits, one version after the other. Raises PlacetError when something this needs is away."""
        where = {"tenant": tenant, "rebuild_id": rebuild_id}
        while (item := await self._next(where)) is not None:
            version = where | {"document_id": item.document_id, "version": item.version}
            outcome = {"state": "done", "reason": None}
            try:
                await self.indexing.rebuild(
                    {"tenant": tenant, "document_id": item.document_id, "version": item.version}
                )
            except ParseError as error:
                outcome = {"state": "failed", "reason": error.reason.value}
            await self._write(tenant, _SETTLE, version | outcome)
            await report(await self.status(tenant, rebuild_id))
        await self._write(tenant, _FINISH, where)
        return await self.status(tenant, rebuild_id)

    async def _next(self, where: dict[str, Any]) -> Any:
        async with self._transaction(where["tenant"]) as connection:
            return (await connection.execute(_NEXT, where)).one_or_none()

    async def _write(self, tenant: str, statement: Any, values: dict[str, Any]) -> None:
        async with self._transaction(tenant) as connection:
            await connection.execute(statement, values)

    def _transaction(self, tenant: str) -> AbstractAsyncContextManager[AsyncConnection]:
        return self.database.transaction(local=scopes.tenant_settings(tenant))
