"""From who is asking to what may be read, resolved in the database at this moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.models import KnowledgeScope


@dataclass(frozen=True, slots=True)
class ReadableScope:
    """`keys` name bases and, where a document narrows its base, single documents. Counts are of published chunks."""

    keys: tuple[str, ...]
    chunks: int
    term_total: int


def settings(scope: KnowledgeScope) -> dict[str, str]:
    """The actor as transaction settings; row-level security and the scope query read them."""
    return {
        "placet.tenant": scope.tenant,
        "placet.user": scope.user,
        "placet.roles": array_literal(scope.roles),
        "placet.teams": array_literal(scope.teams),
        "placet.clearance": str(scope.clearance),
    }


def tenant_settings(tenant: str) -> dict[str, str]:
    """A transaction of the system inside one tenant: may write there, reads no body."""
    return {"placet.tenant": tenant}


def array_literal(names: Iterable[str]) -> str:
    """A PostgreSQL array literal; quotes and backslashes in names are escaped."""
    return "{" + ",".join('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in sorted(names)) + "}"


_RESOLVE = text("""
WITH open_bases AS MATERIALIZED (
    SELECT base_id FROM knowledge.bases
    WHERE tenant = :tenant AND knowledge.base_open(owner, roles, teams, clearance)
), keys AS MATERIALIZED (
    SELECT 'b:' || base_id AS scope_key FROM open_bases
    UNION ALL
    SELECT d.scope_key FROM knowledge.documents d JOIN open_bases USING (base_id)
    WHERE d.tenant = :tenant AND d.scope_key LIKE 'd:%'
      AND knowledge.document_open(d.owner, d.roles, d.teams, d.clearance)
)
SELECT ARRAY(SELECT scope_key FROM keys) AS keys, coalesce(sum(v.chunk_count), 0) AS chunks,
       coalesce(sum(v.term_count), 0) AS term_total
FROM keys
JOIN knowledge.documents d ON d.tenant = :tenant AND d.scope_key = keys.scope_key
JOIN knowledge.versions v
  ON v.tenant = d.tenant AND v.document_id = d.document_id AND v.version = d.published_version
""")


async def resolve(connection: AsyncConnection, scope: KnowledgeScope) -> ReadableScope:
    """What `scope` may read now. The transaction carries `settings(scope)`."""
    row = (await connection.execute(_RESOLVE, {"tenant": scope.tenant})).one()
    return ReadableScope(keys=tuple(row.keys), chunks=int(row.chunks), term_total=int(row.term_total))
