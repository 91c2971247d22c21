"""Who may read a document, changed: the list and what the search goes by move in one commit.

A document's list only ever narrows its base's: whoever reads has to be let in by both, the document's owner too. So no
list set here, however wide, opens a document to anybody whom its base keeps out.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from placet.knowledge import scope as scopes
from placet.knowledge.errors import LockVersionConflict, NotFound
from placet.knowledge.models import Acl
from placet.knowledge.ports import Database

_LOCK = text("""
SELECT lock_version FROM knowledge.documents WHERE tenant = :tenant AND document_id = :document_id FOR UPDATE
""")

_SET = text("""
UPDATE knowledge.documents SET owner = :owner, roles = :roles, teams = :teams, clearance = :clearance,
    lock_version = lock_version + 1, updated_at = now()
WHERE tenant = :tenant AND document_id = :document_id
RETURNING lock_version, scope_key
""")

_MOVE_CHUNKS = [
    text(f"""
    UPDATE knowledge.{table} SET scope_key = :scope_key
    WHERE tenant = :tenant AND document_id = :document_id AND scope_key <> :scope_key
    """)  # noqa: S608 (constants only)
    for table in ("chunk_terms", "chunk_vectors")
]


@dataclass(frozen=True, slots=True)
class AccessLists:
    """Writes of the system inside a tenant: whoever calls has authorized the actor before."""

    database: Database

    async def change(self, tenant: str, document_id: str, acl: Acl, *, lock_version: int | None) -> int:
        """Set the document's own list; effective for the next read. Returns the new lock version.

        `lock_version` None: whatever the document has become meanwhile. Raises NotFound, LockVersionConflict.
        """
        where = {"tenant": tenant, "document_id": document_id}
        values = {
            "owner": acl.owner,
            "roles": sorted(acl.roles),
            "teams": sorted(acl.teams),
            "clearance": acl.clearance,
        }
        async with self.database.transaction(local=scopes.tenant_settings(tenant)) as connection:
            row = (await connection.execute(_LOCK, where)).one_or_none()
            if row is None:
                raise NotFound
            if lock_version is not None and row.lock_version != lock_version:
                raise LockVersionConflict(lock_version, row.lock_version)
            moved = (await connection.execute(_SET, where | values)).one()
            for statement in _MOVE_CHUNKS:
                await connection.execute(statement, where | {"scope_key": moved.scope_key})
        return int(moved.lock_version)
