"""Takes files in: where they may go, the draft version a file becomes, and uploads that are still on their way.

A version exists from the moment its original is stored; what it says is read afterwards (`indexing`). Both facts are
one commit: a process that dies before it leaves an upload that can be finished or is swept, one that dies after it
leaves a version whose reading is taken up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge import scope as scopes
from placet.knowledge.errors import NotFound
from placet.knowledge.models import Acl, DocumentState, KnowledgeScope, NewVersion, Place, Upload
from placet.knowledge.parsed import media_type_of
from placet.knowledge.ports import Database

# One look-up, whether base and document are absent, forbidden or readable.
_PLACE = text("""
SELECT b.owner AS base_owner, d.owner AS document_owner, d.document_id IS NOT NULL AS found
FROM knowledge.bases b
LEFT JOIN knowledge.documents d ON d.tenant = b.tenant AND d.base_id = b.base_id AND d.document_id = :document_id
 AND knowledge.document_open(d.owner, d.roles, d.teams, d.clearance)
WHERE b.tenant = :tenant AND b.base_id = :base_id
  AND knowledge.base_open(b.owner, b.roles, b.teams, b.clearance)
""")

_BASE = text("SELECT 1 FROM knowledge.bases WHERE tenant = :tenant AND base_id = :base_id")

_ADD_DOCUMENT = text("""
INSERT INTO knowledge.documents (tenant, document_id, base_id, title, owner, roles, teams, clearance, trusted)
VALUES (:tenant, :document_id, :base_id, :title, :owner, :roles, :teams, :clearance, :trusted)
ON CONFLICT (tenant, document_id) DO NOTHING
""")

_LOCK_DOCUMENT = text("""
SELECT base_id, lock_version FROM knowledge.documents
WHERE tenant = :tenant AND document_id = :document_id FOR UPDATE
""")

_LATEST = text("""
SELECT v.version, v.sha256, v.status, v.state, d.lock_version
FROM knowledge.documents d JOIN knowledge.versions v ON v.tenant = d.tenant AND v.document_id = d.document_id
WHERE d.tenant = :tenant AND d.document_id = :document_id ORDER BY v.version DESC LIMIT 1
""")

_ADD_VERSION = text("""
INSERT INTO knowledge.versions (tenant, document_id, version, status, state, title, filename, media_type, original_key,
    sha256, size, authors, chunk_count, term_count, created_by)
VALUES (:tenant, :document_id, :version, 'draft', 'received', :title, :filename, :media_type, :original_key,
    :sha256, :size, :authors, 0, 0, :created_by)
""")

# A further version is a change of the document: whoever decided on what was there before decides anew.
_MOVE = text("""
UPDATE knowledge.documents SET lock_version = lock_version + 1, updated_at = now()
WHERE tenant = :tenant AND document_id = :document_id
""")

_BEGIN = text("""
INSERT INTO knowledge.uploads (tenant, upload_id, actor, base_id, document_id, is_new, title, filename, trusted, size,
    sha256)
VALUES (:tenant, :upload_id, :actor, :base_id, :document_id, :is_new, :title, :filename, :trusted, :size, :sha256)
ON CONFLICT (tenant, upload_id) DO NOTHING
""")

_UPLOAD = """
SELECT tenant, upload_id, actor, base_id, document_id, is_new, title, filename, trusted, size, sha256, parts, version
FROM knowledge.uploads WHERE tenant = :tenant AND upload_id = :upload_id AND actor = :actor
"""
_FIND_UPLOAD = text(_UPLOAD)
_LOCK_UPLOAD = text(_UPLOAD + " FOR UPDATE")

_ADD_PART = text("""
UPDATE knowledge.uploads SET parts = array_append(parts, CAST(:place AS bigint))
WHERE tenant = :tenant AND upload_id = :upload_id AND cardinality(parts) = :index AND version IS NULL
""")

_DONE_UPLOAD = text("UPDATE knowledge.uploads SET version = :version WHERE tenant = :tenant AND upload_id = :upload_id")

Adopt = Callable[[Upload], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Intake:
    """Writes of the system inside a tenant: whoever calls has authorized the actor before."""

    database: Database

    async def place(self, scope: KnowledgeScope, base_id: str, document_id: str | None) -> Place | None:
        """Where a file may go as far as the actor can read it; None for a base that is absent or closed to them."""
        parameters = {"tenant": scope.tenant, "base_id": base_id, "document_id": document_id or ""}
        async with self.database.transaction(local=scopes.settings(scope), read_only=True) as connection:
            row = (await connection.execute(_PLACE, parameters)).one_or_none()
        if row is None:
            return None
        owners = tuple(owner for owner in (row.base_owner, row.document_owner) if owner)
        return Place(owners=owners, document_found=document_id is None or row.found)

    async def begin(self, upload: Upload) -> Upload:
        """Note that a file is coming. The same upload again is found as far as it has come.

        Raises NotFound when another actor has an upload of this id, or this actor one of another file.
        """
        values = {
            **_key(upload.tenant, upload.upload_id, upload.actor),
            "base_id": upload.base_id,
            "document_id": upload.document_id,
            "is_new": upload.is_new,
            "title": upload.title,
            "filename": upload.filename,
            "trusted": upload.trusted,
            "size": upload.size,
            "sha256": upload.sha256,
        }
        async with self.database.transaction(local=scopes.tenant_settings(upload.tenant)) as connection:
            await connection.execute(_BEGIN, values)
            found = await _upload(connection, values)
        if not found.same_file(upload):
            raise NotFound
        return found

    async def upload(self, tenant: str, upload_id: str, actor: str) -> Upload:
        """Raises NotFound."""
        async with self.database.transaction(local=scopes.tenant_settings(tenant), read_only=True) as connection:
            return await _upload(connection, _key(tenant, upload_id, actor))

    async def add_part(self, upload: Upload, index: int, place: int) -> None:
        """Note where part `index` lies. A part that is noted already stays where it is."""
        where = _key(upload.tenant, upload.upload_id, upload.actor) | {"index": index, "place": place}
        async with self.database.transaction(local=scopes.tenant_settings(upload.tenant)) as connection:
            await connection.execute(_ADD_PART, where)

    async def finish(self, tenant: str, upload_id: str, actor: str, adopt: Adopt) -> DocumentState:
        """The draft version that this upload becomes; finishing again returns the same one.

        `adopt` makes the stored parts an original while the upload is locked: neither a second finish nor the sweep
        of old uploads comes between. Raises NotFound, and whatever `adopt` raises.
        """
        async with self.database.transaction(local=scopes.tenant_settings(tenant)) as connection:
            upload = await _upload(connection, _key(tenant, upload_id, actor), lock=True)
            if upload.version is not None:
                return await _stands(connection, upload, upload.version)
            await adopt(upload)
            state = await add_version(connection, _new_version(upload), upload.sha256, upload.size)
            done = {"tenant": tenant, "upload_id": upload_id, "version": state.version}
            await connection.execute(_DONE_UPLOAD, done)
            return state


async def add_version(
    connection: AsyncConnection, new: NewVersion, digest: str, size: int, *, only_changed: bool = False
) -> DocumentState:
    """Add `new` as the next draft, `received`. With `only_changed`, the newest version's bytes again change nothing.

    Raises NotFound: no such base, or the document lies in another one.
    """
    who = {"tenant": new.tenant, "document_id": new.document_id}
    await _ensure_document(connection, new)
    document = (await connection.execute(_LOCK_DOCUMENT, who)).one()
    if document.base_id != new.base_id:
        raise NotFound
    latest = await latest_version(connection, new.tenant, new.document_id)
    if latest is not None and only_changed and latest.sha256 == digest:
        return DocumentState(new.document_id, latest.version, latest.status, latest.lock_version)
    version = 1 if latest is None else latest.version + 1
    await connection.execute(_ADD_VERSION, who | _version_row(new, version, digest, size))
    if latest is not None:
        await connection.execute(_MOVE, who)
    lock_version = document.lock_version + (0 if latest is None else 1)
    return DocumentState(new.document_id, version, "draft", lock_version, created=True)


async def latest_version(connection: AsyncConnection, tenant: str, document_id: str) -> Any:
    """The row of the newest version, or None."""
    return (await connection.execute(_LATEST, {"tenant": tenant, "document_id": document_id})).one_or_none()


def original_key(tenant: str, sha256: str) -> str:
    """Originals are kept by what they are, so the same bytes are kept once per tenant."""
    return f"{tenant}/{sha256}"


async def _ensure_document(connection: AsyncConnection, new: NewVersion) -> None:
    if (await connection.execute(_BASE, {"tenant": new.tenant, "base_id": new.base_id})).one_or_none() is None:
        raise NotFound
    row = {
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
    await connection.execute(_ADD_DOCUMENT, row)


def _version_row(new: NewVersion, version: int, digest: str, size: int) -> dict[str, Any]:
    return {
        "version": version,
        "title": new.title,
        "filename": new.filename,
        "media_type": media_type_of(new.filename),
        "original_key": original_key(new.tenant, digest),
        "sha256": digest,
        "size": size,
        "authors": list(new.authors),
        "created_by": new.created_by,
    }


def _new_version(upload: Upload) -> NewVersion:
    """The uploader is the author; a document that is uploaded belongs to its base, and to no single person."""
    return NewVersion(
        tenant=upload.tenant,
        document_id=upload.document_id,
        base_id=upload.base_id,
        title=upload.title,
        filename=upload.filename,
        data=b"",
        created_by=upload.actor,
        authors=(upload.actor,),
        acl=Acl(),
        trusted=upload.trusted,
    )


async def _stands(connection: AsyncConnection, upload: Upload, version: int) -> DocumentState:
    latest = await latest_version(connection, upload.tenant, upload.document_id)
    return DocumentState(upload.document_id, version, "draft", latest.lock_version)


def _key(tenant: str, upload_id: str, actor: str) -> dict[str, Any]:
    return {"tenant": tenant, "upload_id": upload_id, "actor": actor}


async def _upload(connection: AsyncConnection, key: dict[str, Any], *, lock: bool = False) -> Upload:
    row = (await connection.execute(_LOCK_UPLOAD if lock else _FIND_UPLOAD, key)).one_or_none()
    if row is None:
        raise NotFound
    return Upload(**{**row._mapping, "parts": tuple(row.parts)})
