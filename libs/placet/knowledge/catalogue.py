"""Documents and their versions, as far as this actor may read them now.

Every look-up is one statement of the same shape whether the document is absent, forbidden or readable.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge import scope as scopes
from placet.knowledge.errors import NotFound
from placet.knowledge.indexing import reading_of
from placet.knowledge.models import DocumentInfo, DocumentList, KnowledgeScope, Reading
from placet.knowledge.ports import Database

MAX_PAGE = 200

_READABLE = """
FROM knowledge.documents d
JOIN knowledge.bases b ON b.tenant = d.tenant AND b.base_id = d.base_id
JOIN LATERAL (
    SELECT version AS latest, sha256 AS latest_sha256, state, chunks_done, chunk_count, failure, failure_detail
    FROM knowledge.versions n
    WHERE n.tenant = d.tenant AND n.document_id = d.document_id ORDER BY version DESC LIMIT 1
) n ON true
JOIN knowledge.versions v ON v.tenant = d.tenant AND v.document_id = d.document_id
 AND v.version = {version}
WHERE d.tenant = :tenant
  AND knowledge.base_open(b.owner, b.roles, b.teams, b.clearance)
  AND knowledge.document_open(d.owner, d.roles, d.teams, d.clearance)
  AND (:unpublished OR d.published_version = v.version
       OR b.owner = knowledge.actor_user() OR d.owner = knowledge.actor_user())
"""
_COLUMNS = """
SELECT d.tenant, d.document_id, d.base_id, d.title, d.owner, d.trusted, d.lock_version, d.published_version,
       n.latest AS latest_version, v.version, v.status, v.filename, v.media_type, v.sha256, v.size, v.authors,
       d.updated_at, v.original_key, n.latest_sha256, n.state, n.chunks_done, n.chunk_count,
       n.failure, n.failure_detail, b.owner AS base_owner, v.title AS version_title,
       (:unpublished OR b.owner = knowledge.actor_user() OR d.owner = knowledge.actor_user()) IS TRUE AS sees_drafts
"""
_SHOWN = "coalesce(CAST(:version AS integer), d.published_version, n.latest)"

_ONE = text(_COLUMNS + _READABLE.format(version=_SHOWN) + " AND d.document_id = :document_id")
_PAGE = text(
    _COLUMNS + _READABLE.format(version=_SHOWN) + " AND d.document_id > :after ORDER BY d.document_id LIMIT :limit"
)

_THESE = text("""
SELECT d.document_id, v.version, v.title AS version_title, d.title
FROM unnest(CAST(:documents AS text[]), CAST(:versions AS integer[])) AS asked (document_id, version)
JOIN knowledge.documents d ON d.tenant = :tenant AND d.document_id = asked.document_id
JOIN knowledge.bases b ON b.tenant = d.tenant AND b.base_id = d.base_id
JOIN knowledge.versions v ON v.tenant = d.tenant AND v.document_id = d.document_id AND v.version = asked.version
WHERE knowledge.base_open(b.owner, b.roles, b.teams, b.clearance)
  AND knowledge.document_open(d.owner, d.roles, d.teams, d.clearance)
  AND (:unpublished OR d.published_version = v.version
       OR b.owner = knowledge.actor_user() OR d.owner = knowledge.actor_user())
""")


async def titles(
    database: Database, scope: KnowledgeScope, versions: Collection[tuple[str, int]], *, unpublished: bool
) -> dict[tuple[str, int], str]:
    """Of these document versions, those that may be read by the rule of `find`, with their titles."""
    asked = {"documents": [document for document, _ in versions], "versions": [version for _, version in versions]}
    async with database.transaction(local=scopes.settings(scope), read_only=True) as connection:
        rows = await connection.execute(_THESE, asked | {"tenant": scope.tenant, "unpublished": unpublished})
        return {(row.document_id, row.version): row.version_title or row.title for row in rows}


async def find(
    connection: AsyncConnection, scope: KnowledgeScope, document_id: str, version: int | None, *, unpublished: bool
) -> tuple[DocumentInfo, str]:
    """The document with that version (default: the published one, else the newest) and the key of its original.

    Raises NotFound. With `unpublished` false only a published version is found, except by the owner of the base or of
    the document.
    """
    parameters = {"tenant": scope.tenant, "document_id": document_id, "version": version, "unpublished": unpublished}
    row = (await connection.execute(_ONE, parameters)).one_or_none()
    if row is None:
        raise NotFound
    return _info(row), row.original_key


async def one(
    database: Database, scope: KnowledgeScope, document_id: str, version: int | None = None, *, unpublished: bool
) -> tuple[DocumentInfo, str]:
    """`find` in a transaction of its own."""
    async with database.transaction(local=scopes.settings(scope), read_only=True) as connection:
        return await find(connection, scope, document_id, version, unpublished=unpublished)


async def page(
    database: Database, scope: KnowledgeScope, cursor: str | None, limit: int, *, unpublished: bool
) -> DocumentList:
    """Readable documents in the order of their ids. An unknown cursor starts from the beginning."""
    limit = max(1, min(limit, MAX_PAGE))
    parameters = {
        "tenant": scope.tenant,
        "version": None,
        "unpublished": unpublished,
        "after": _after(cursor),
        "limit": limit + 1,
    }
    async with database.transaction(local=scopes.settings(scope), read_only=True) as connection:
        rows = (await connection.execute(_PAGE, parameters)).all()
    items = tuple(_info(row) for row in rows[:limit])
    return DocumentList(items=items, next=_cursor(items[-1].document_id) if len(rows) > limit else None)


def _info(row: Any) -> DocumentInfo:
    return DocumentInfo(
        tenant=row.tenant,
        document_id=row.document_id,
        base_id=row.base_id,
        title=row.title,
        owner=row.owner,
        trusted=row.trusted,
        lock_version=row.lock_version,
        published_version=row.published_version,
        latest_version=row.latest_version,
        version=row.version,
        status=row.status,
        filename=row.filename,
        media_type=row.media_type,
        sha256=row.sha256,
        size=row.size,
        authors=tuple(row.authors),
        updated_at=row.updated_at,
        base_owner=row.base_owner,
        version_title=row.version_title,
        latest_sha256=row.latest_sha256 if row.sees_drafts else row.sha256,
        reading=_reading(row),
    )


def _reading(row: Any) -> Reading | None:
    """Of the newest version, for those who may know of it."""
    if not row.sees_drafts:
        return None
    return replace(reading_of(row), version=row.latest_version)


def _cursor(document_id: str) -> str:
    return base64.urlsafe_b64encode(document_id.encode()).decode()


def _after(cursor: str | None) -> str:
    try:
        return base64.urlsafe_b64decode((cursor or "").encode()).decode()
    except (binascii.Error, UnicodeError):
        return ""
