"""Takes a file in as a draft version and reads it, in one call: what seeds, tests and embedders of the library use."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge import scope as scopes
from placet.knowledge.indexing import UNFINISHED, Indexing
from placet.knowledge.intake import add_version, latest_version, original_key
from placet.knowledge.models import DocumentState, KnowledgeBase, NewVersion
from placet.knowledge.ports import Database

_PUT_BASE = text("""
INSERT INTO knowledge.bases (tenant, base_id, title, owner, roles, teams, clearance)
VALUES (:tenant, :base_id, :title, :owner, :roles, :teams, :clearance)
ON CONFLICT (tenant, base_id) DO UPDATE SET title = excluded.title, owner = excluded.owner, roles = excluded.roles,
    teams = excluded.teams, clearance = excluded.clearance
WHERE NOT :only_new
""")


@dataclass(frozen=True, slots=True)
class Ingest:
    database: Database
    indexing: Indexing

    async def put_base(self, base: KnowledgeBase, *, only_new: bool) -> None:
        parameters = {
            "tenant": base.tenant,
            "base_id": base.base_id,
            "title": base.title,
            "owner": base.acl.owner,
            "roles": sorted(base.acl.roles),
            "teams": sorted(base.acl.teams),
            "clearance": base.acl.clearance,
            "only_new": only_new,
        }
        async with self.database.transaction(local=scopes.tenant_settings(base.tenant)) as connection:
            await connection.execute(_PUT_BASE, parameters)

    async def take_in(self, new: NewVersion) -> DocumentState:
        """Store `new` as the next draft version and read it. The same bytes as the newest version change nothing.

        Raises ParseError (nothing is kept then), NotFound (no such base, or the document lies in another base),
        PlacetError when the database, the original store or the embedder fails. The published version stays as it is.
        """
        digest = sha256(new.data).hexdigest()
        async with self._transaction(new.tenant) as connection:
            latest = await latest_version(connection, new.tenant, new.document_id)
        if latest is not None and latest.sha256 == digest and latest.state not in UNFINISHED:
            return DocumentState(new.document_id, latest.version, latest.status, latest.lock_version)
        parsed = await self.indexing.parser.parse(new.filename, new.data)
        await self.indexing.originals.put(original_key(new.tenant, digest), new.data)
        async with self._transaction(new.tenant) as connection:
            state = await add_version(connection, new, digest, len(new.data), only_changed=True)
        where = {"tenant": new.tenant, "document_id": new.document_id, "version": state.version}
        await self.indexing.index(where, new.title, parsed)
        return state

    async def state(self, tenant: str, document_id: str) -> DocumentState | None:
        """The newest version, or None when there is no such document."""
        async with self._transaction(tenant) as connection:
            latest = await latest_version(connection, tenant, document_id)
        if latest is None:
            return None
        return DocumentState(document_id, latest.version, latest.status, latest.lock_version)

    def _transaction(self, tenant: str) -> AbstractAsyncContextManager[AsyncConnection]:
        return self.database.transaction(local=scopes.tenant_settings(tenant))
