"""Takes a file in as a draft version: bodies, terms and vectors in one step that either happened or did not."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge import scope as scopes
from placet.knowledge.chunking import chunks_of
from placet.knowledge.errors import NotFound
from placet.knowledge.models import Chunk, DocumentState, KnowledgeBase, NewVersion
from placet.knowledge.parsed import ParsedDocument
from placet.knowledge.ports import Database, Embedder, FileParser, OriginalStore
from placet.knowledge.tokens import terms, tsvector
from placet.knowledge.vectors import literal

_PUT_BASE = text("""
INSERT INTO knowledge.bases (tenant, base_id, title, owner, roles, teams, clearance)
VALUES (:tenant, :base_id, :title, :owner, :roles, :teams, :clearance)
ON CONFLICT (tenant, base_id) DO UPDATE SET title = excluded.title, owner = excluded.owner, roles = excluded.roles,
    teams = excluded.teams, clearance = excluded.clearance
WHERE NOT :only_new
""")

_PUT_DOCUMENT = text("""
INSERT INTO knowledge.documents (tenant, document_id, base_id, title, owner, roles, teams, clearance, trusted)
VALUES (:tenant, :document_id, :base_id, :title, :owner, :roles, :teams, :clearance, :trusted)
ON CONFLICT (tenant, document_id) DO NOTHING
""")

_LOCK_DOCUMENT = text("""
SELECT base_id, lock_version, scope_key FROM knowledge.documents
WHERE tenant = :tenant AND document_id = :document_id FOR UPDATE
""")

_LATEST = text("""
SELECT v.version, v.sha256, v.status, d.lock_version
FROM knowledge.documents d JOIN knowledge.versions v ON v.tenant = d.tenant AND v.document_id = d.document_id
WHERE d.tenant = :tenant AND d.document_id = :document_id ORDER BY v.version DESC LIMIT 1
""")

_ADD_VERSION = text("""
INSERT INTO knowledge.versions (tenant, document_id, version, status, filename, media_type, original_key, sha256, size,
    pages, authors, chunk_count, term_count, created_by)
VALUES (:tenant, :document_id, :version, 'draft', :filename, :media_type, :original_key, :sha256, :size,
    :pages, :authors, :chunk_count, :term_count, :created_by)
""")

_ADD_BODY = text("""
INSERT INTO knowledge.chunk_bodies (tenant, chunk_id, document_id, version, ordinal, page, section, body)
VALUES (:tenant, :chunk_id, :document_id, :version, :ordinal, :page, :section, :body)
""")

_ADD_TERMS = text("""
INSERT INTO knowledge.chunk_terms (tenant, chunk_id, document_id, version, scope_key, term_count, terms)
VALUES (:tenant, :chunk_id, :document_id, :version, :scope_key, :term_count, CAST(:terms AS tsvector))
""")

_ADD_VECTOR = text("""
INSERT INTO knowledge.chunk_vectors (tenant, model, chunk_id, document_id, version, scope_key, embedding)
VALUES (:tenant, :model, :chunk_id, :document_id, :version, :scope_key, CAST(:embedding AS vector))
""")


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything about a version that does not depend on its number."""

    digest: str
    key: str
    parsed: ParsedDocument
    vectors: list[list[float]]


@dataclass(frozen=True, slots=True)
class Ingest:
    database: Database
    originals: OriginalStore
    parser: FileParser
    embedder: Embedder

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
        """Store `new` as the next draft version. The same bytes as the newest version change nothing.

        Raises ParseError, NotFound (no such base, or the document lies in another base), PlacetError when the
        database, the original store or the embedder fails. The published version stays as it is.
        """
        digest = sha256(new.data).hexdigest()
        known = await self._known(new, digest)
        if known is not None:
            return known
        prepared = await self._prepare(new, digest)
        async with self.database.transaction(local=scopes.tenant_settings(new.tenant)) as connection:
            return await _store(connection, new, prepared, self.embedder.model)

    async def state(self, tenant: str, document_id: str) -> DocumentState | None:
        """The newest version, or None when there is no such document."""
        async with self.database.transaction(local=scopes.tenant_settings(tenant), read_only=True) as connection:
            latest = await _latest(connection, tenant, document_id)
        return _state(document_id, latest) if latest is not None else None

    async def _known(self, new: NewVersion, digest: str) -> DocumentState | None:
        async with self.database.transaction(local=scopes.tenant_settings(new.tenant), read_only=True) as connection:
            latest = await _latest(connection, new.tenant, new.document_id)
        return _state(new.document_id, latest) if latest is not None and latest.sha256 == digest else None

    async def _prepare(self, new: NewVersion, digest: str) -> _Prepared:
        """The slow part, outside any transaction. The version number in the chunk ids does not matter yet."""
        parsed = await self.parser.parse(new.filename, new.data)
        key = f"{new.tenant}/{digest}"
        await self.originals.put(key, new.data)
        texts = [_indexed_text(new.title, chunk) for chunk in chunks_of(new.document_id, 1, parsed)]
        return _Prepared(digest=digest, key=key, parsed=parsed, vectors=await self.embedder.embed(texts))


async def _latest(connection: AsyncConnection, tenant: str, document_id: str) -> Any:
    return (await connection.execute(_LATEST, {"tenant": tenant, "document_id": document_id})).one_or_none()


def _state(document_id: str, latest: Any) -> DocumentState:
    return DocumentState(document_id, latest.version, latest.status, latest.lock_version)


async def _store(connection: AsyncConnection, new: NewVersion, prepared: _Prepared, model: str) -> DocumentState:
    await _ensure_document(connection, new)
    who = {"tenant": new.tenant, "document_id": new.document_id}
    document = (await connection.execute(_LOCK_DOCUMENT, who)).one()
    if document.base_id != new.base_id:
        raise NotFound
    latest = await _latest(connection, new.tenant, new.document_id)
    if latest is not None and latest.sha256 == prepared.digest:  # somebody else was quicker
        return _state(new.document_id, latest)
    version = 1 if latest is None else latest.version + 1
    chunks = chunks_of(new.document_id, version, prepared.parsed)
    found = [terms(_indexed_text(new.title, chunk)) for chunk in chunks]
    await connection.execute(_ADD_VERSION, _version_row(new, prepared, version, found))
    where = {**who, "version": version}
    await connection.execute(_ADD_BODY, [where | _body_row(chunk) for chunk in chunks])
    key = {**where, "scope_key": document.scope_key}
    term_rows = [
        {**key, "chunk_id": chunk.chunk_id, "term_count": len(of_chunk), "terms": tsvector(of_chunk)}
        for chunk, of_chunk in zip(chunks, found, strict=True)
    ]
    await connection.execute(_ADD_TERMS, term_rows)
    if prepared.vectors:
        vector_rows = [
            {**key, "model": model, "chunk_id": chunk.chunk_id, "embedding": literal(vector)}
            for chunk, vector in zip(chunks, prepared.vectors, strict=True)
        ]
        await connection.execute(_ADD_VECTOR, vector_rows)
    return DocumentState(new.document_id, version, "draft", document.lock_version, created=True)


async def _ensure_document(connection: AsyncConnection, new: NewVersion) -> None:
    base = text("SELECT 1 FROM knowledge.bases WHERE tenant = :tenant AND base_id = :base_id")
    if (await connection.execute(base, {"tenant": new.tenant, "base_id": new.base_id})).one_or_none() is None:
        raise NotFound
    parameters = {
        "tenant": new.tenant,
        "document_id": new.document_id,
        "base_id": new.base_id,
        "title": new.title,
        "owner": new.acl.owner,
        "roles": sorted(new.acl.roles),
        "teams": sorted(new.acl.teams),
        "clearance": new.acl.clearance,
        "trusted": new.trusted,
    }
    await connection.execute(_PUT_DOCUMENT, parameters)


def _version_row(new: NewVersion, prepared: _Prepared, version: int, found: list[list[str]]) -> dict[str, Any]:
    return {
        "tenant": new.tenant,
        "document_id": new.document_id,
        "version": version,
        "filename": new.filename,
        "media_type": prepared.parsed.media_type,
        "original_key": prepared.key,
        "sha256": prepared.digest,
        "size": len(new.data),
        "pages": prepared.parsed.pages,
        "authors": list(new.authors),
        "chunk_count": len(found),
        "term_count": sum(map(len, found)),
        "created_by": new.created_by,
    }


def _body_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.chunk_id,
        "ordinal": chunk.ordinal,
        "page": chunk.page,
        "section": chunk.section,
        "body": chunk.body,
    }


def _indexed_text(title: str, chunk: Chunk) -> str:
    """What is searched: title and section say what a chunk is about even where its sentences do not."""
    return "\n".join(part for part in (title, chunk.section, chunk.body) if part)
