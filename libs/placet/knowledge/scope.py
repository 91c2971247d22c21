"""From who is asking to what may be read, resolved in the database at this moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import text

from placet.knowledge.models import KnowledgeScope
from placet.knowledge.ports import Pipeline

MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class ReadableScope:
    """`keys` name bases and, where a document narrows its base, single documents. Counts are of published chunks.

    `mostly` says that it is at least half of what the tenant has, `everything` that it is all. `chunks_of_all` is about
    what all tenants have (kept by the server for its plans). Of these only the way of searching depends. `model` is the
    embedding model that serves, None before the first one.
    """

    tenant: str
    keys: tuple[str, ...]
    chunks: int
    term_total: int
    mostly: bool = False
    model: str | None = None
    chunks_of_all: int = 0
    everything: bool = False


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
SELECT coalesce(array_agg(t.scope_key), '{}') AS keys, coalesce(sum(t.chunks), 0) AS chunks,
       coalesce(sum(t.terms), 0) AS term_total,
       (SELECT coalesce(sum(a.chunks), 0) FROM knowledge.scope_totals a WHERE a.tenant = :tenant) AS all_chunks,
       (SELECT c.reltuples FROM pg_class c WHERE c.oid = CAST('knowledge.chunk_vectors' AS regclass)) AS chunks_of_all,
       (SELECT m.model FROM knowledge.embedding_models m WHERE m.status = 'serving') AS model
FROM keys JOIN knowledge.scope_totals t ON t.tenant = :tenant AND t.scope_key = keys.scope_key AND t.chunks > 0
""")


async def resolve(pipeline: Pipeline, scope: KnowledgeScope) -> ReadableScope:
    """What `scope` may read now. The transaction carries `settings(scope)`."""
    (row,) = await (await pipeline.send(_RESOLVE, {"tenant": scope.tenant})).rows()
    chunks = int(row.chunks)
    mostly = chunks >= MOSTLY * int(row.all_chunks)
    of_all = int(row.chunks_of_all)
    everything = chunks == int(row.all_chunks)
    keys, terms = tuple(row.keys), int(row.term_total)
    return ReadableScope(scope.tenant, keys, chunks, terms, mostly, row.model, of_all, everything)
