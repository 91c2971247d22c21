"""Unpublished texts that people have agreed to show to one person, for an hour.

A release names a version, whose bytes never change, and opens nothing by itself: whoever uses it must still be able to
read the document.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from placet.knowledge import scope as scopes
from placet.knowledge.ports import Database

RELEASED_S = 3_600

_RELEASE = text("""
INSERT INTO knowledge.releases (tenant, document_id, version, actor) VALUES (:tenant, :document_id, :version, :actor)
ON CONFLICT (tenant, document_id, version, actor) DO UPDATE SET released_at = now()
""")

_STANDS = text("""
SELECT EXISTS (
    SELECT FROM knowledge.releases WHERE tenant = :tenant AND document_id = :document_id AND version = :version
    AND actor = :actor AND released_at > now() - make_interval(secs => :seconds))
""")


@dataclass(frozen=True, slots=True)
class Releases:
    database: Database

    async def add(self, tenant: str, actor: str, document_id: str, version: int) -> None:
        """Agreed again, it lasts for another hour."""
        values = {"tenant": tenant, "actor": actor, "document_id": document_id, "version": version}
        async with self.database.transaction(local=scopes.tenant_settings(tenant)) as connection:
            await connection.execute(_RELEASE, values)

    async def stands(self, tenant: str, actor: str, document_id: str, version: int) -> bool:
        values = {"tenant": tenant, "actor": actor, "document_id": document_id, "version": version}
        async with self.database.transaction(local=scopes.tenant_settings(tenant), read_only=True) as connection:
            return bool(await connection.scalar(_STANDS, values | {"seconds": RELEASED_S}))
