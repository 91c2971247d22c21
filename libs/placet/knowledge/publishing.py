"""Publishing and archiving: compare-and-set on the document's lock version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge import scope as scopes
from placet.knowledge.errors import LockVersionConflict, NotFound, NotPublishable
from placet.knowledge.models import Publication
from placet.knowledge.ports import Database

_LOCK = text("""
SELECT d.lock_version, d.published_version, v.status, v.state
FROM knowledge.documents d
JOIN knowledge.versions v ON v.tenant = d.tenant AND v.document_id = d.document_id AND v.version = :version
WHERE d.tenant = :tenant AND d.document_id = :document_id
FOR UPDATE OF d
""")

_ARCHIVE_PUBLISHED = text("""
UPDATE knowledge.versions SET status = 'archived'
WHERE tenant = :tenant AND document_id = :document_id AND status = 'published'
""")

_MARK_PUBLISHED = text("""
UPDATE knowledge.versions SET status = 'published', published_at = now()
WHERE tenant = :tenant AND document_id = :document_id AND version = :version
""")

_MOVE_DOCUMENT = text("""
UPDATE knowledge.documents d SET published_version = :published, lock_version = lock_version + 1, updated_at = now(),
    title = coalesce((SELECT v.title FROM knowledge.versions v WHERE v.tenant = d.tenant
                      AND v.document_id = d.document_id AND v.version = CAST(:published AS integer)), d.title)
WHERE d.tenant = :tenant AND d.document_id = :document_id
""")

_SHOW_CHUNKS = [
    text(f"""
    UPDATE knowledge.{table} SET published = (version = CAST(:published AS integer)) IS TRUE
    WHERE tenant = :tenant AND document_id = :document_id
      AND published IS DISTINCT FROM ((version = CAST(:published AS integer)) IS TRUE)
    """)  # noqa: S608 (constants only)
    for table in ("chunk_terms", "chunk_vectors")
]

_RECORD = text("""
INSERT INTO knowledge.publications
    (tenant, idempotency_key, document_id, version, previous_version, lock_version, actor)
VALUES (:tenant, :key, :document_id, :version, :previous, :lock_version, :actor)
""")

_LOOK_UP = text("""
SELECT document_id, version, previous_version, lock_version, actor, published_at
FROM knowledge.publications WHERE tenant = :tenant AND idempotency_key = :key
""")


@dataclass(frozen=True, slots=True)
class Publishing:
    """Writes of the system inside a tenant: whoever calls has been authorized before."""

    database: Database

    async def publish(
        self, tenant: str, document_id: str, version: int, *, lock_version: int, actor: str, idempotency_key: str
    ) -> Publication:
        """Make `version` the published one; the former one becomes archived. An archived version may return.

        The document takes the title of the version. A repeated `idempotency_key` returns the first outcome. Raises
        LockVersionConflict, NotFound, NotPublishable (it is the published version already, or its file has not been
        read to the end); nothing is written then.
        """
        where = {"tenant": tenant, "document_id": document_id, "version": version}
        async with self.database.transaction(local=scopes.tenant_settings(tenant)) as connection:
            row = (await connection.execute(_LOCK, where)).one_or_none()
            done = await _look_up(connection, tenant, idempotency_key)
            if done is not None:
                return done
            if row is None:
                raise NotFound
            if row.lock_version != lock_version:
                raise LockVersionConflict(lock_version, row.lock_version)
            if row.status == "published" or row.state != "ready":
                raise NotPublishable(version, row.status if row.state == "ready" else row.state)
            await _move(connection, where, published=version)
            record = {"key": idempotency_key, "previous": row.published_version, "lock_version": lock_version + 1}
            await connection.execute(_RECORD, where | record | {"actor": actor})
            recorded = await _look_up(connection, tenant, idempotency_key)
        if recorded is None:
            raise RuntimeError("a publication that was just recorded is not there")
        return recorded

    async def archive(self, tenant: str, document_id: str, version: int, *, lock_version: int) -> int:
        """Withdraw the published `version`: nothing of the document is found any more. Returns the new lock version.

        Raises LockVersionConflict, and NotFound when that version is not the published one.
        """
        where = {"tenant": tenant, "document_id": document_id, "version": version}
        async with self.database.transaction(local=scopes.tenant_settings(tenant)) as connection:
            row = (await connection.execute(_LOCK, where)).one_or_none()
            if row is None or row.published_version != version:
                raise NotFound
            if row.lock_version != lock_version:
                raise LockVersionConflict(lock_version, row.lock_version)
            await _move(connection, where, published=None)
        return lock_version + 1

    async def look_up(self, tenant: str, idempotency_key: str) -> Publication | None:
        """What the publishing with this key did, or None when it did not take effect."""
        async with self.database.transaction(local=scopes.tenant_settings(tenant), read_only=True) as connection:
            return await _look_up(connection, tenant, idempotency_key)


async def _move(connection: AsyncConnection, where: dict[str, Any], published: int | None) -> None:
    parameters = where | {"published": published}
    await connection.execute(_ARCHIVE_PUBLISHED, parameters)
    if published is not None:
        await connection.execute(_MARK_PUBLISHED, parameters)
    await connection.execute(_MOVE_DOCUMENT, parameters)
    for statement in _SHOW_CHUNKS:
        await connection.execute(statement, parameters)


async def _look_up(connection: AsyncConnection, tenant: str, key: str) -> Publication | None:
    row = (await connection.execute(_LOOK_UP, {"tenant": tenant, "key": key})).one_or_none()
    return Publication(**row._mapping) if row is not None else None
