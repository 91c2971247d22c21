"""The knowledge store behind the documents port."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from placet.contracts import policy
from placet.contracts.documents import SetDocumentAcl
from placet.contracts.execution import Citation, DocumentFailure, DocumentPage, DocumentView, SourceSlice
from placet.knowledge.errors import NotFound
from placet.knowledge.models import Acl, DocumentInfo, Hit, KnowledgeScope
from placet.knowledge.store import KnowledgeStore
from services.tool_executor.ports import DocumentFacts, DocumentRight


def reading_scope(tenant: str, scope: policy.KnowledgeScope) -> KnowledgeScope:
    """Policy's answer as the store's value. What may read nothing does the same work as what may (I3)."""
    principals = scope.principals
    if principals is None or principals.tenant != tenant:
        return KnowledgeScope.nothing(tenant)
    return KnowledgeScope(
        tenant=tenant,
        user=principals.user,
        roles=frozenset(principals.roles),
        teams=frozenset(principals.teams),
        clearance=principals.clearance,
    )


class StoredDocuments:
    """Implements `Documents`."""

    def __init__(self, store: KnowledgeStore) -> None:
        self._store = store

    async def page(self, tenant: str, right: DocumentRight, cursor: str | None, limit: int) -> DocumentPage:
        scope = reading_scope(tenant, right.scope)
        page = await self._store.list_documents(scope, cursor, limit, include_unpublished=right.unpublished)
        return DocumentPage(items=tuple(_view(info) for info in page.items), next=page.next)

    async def one(self, tenant: str, right: DocumentRight, document_id: str) -> DocumentView:
        scope = reading_scope(tenant, right.scope)
        return _view(await self._store.get_document(scope, document_id, include_unpublished=right.unpublished))

    async def facts(
        self, tenant: str, right: DocumentRight, document_id: str, version: int | None = None
    ) -> DocumentFacts | None:
        scope = reading_scope(tenant, right.scope)
        try:
            info = await self._store.get_document(scope, document_id, version, include_unpublished=right.unpublished)
        except NotFound:
            return None
        owners = tuple(owner for owner in (info.base_owner, info.owner) if owner)
        return DocumentFacts(_view(info), owners, info.published_version)

    async def released(self, tenant: str, actor: str, document_id: str, version: int) -> bool:
        return await self._store.releases.stands(tenant, actor, document_id, version)

    async def set_acl(self, tenant: str, command: SetDocumentAcl) -> int:
        acl = Acl(frozenset(command.roles), frozenset(command.teams), command.clearance, command.owner)
        return await self._store.set_acl(tenant, command.document_id, acl, lock_version=command.lock_version)

    async def withdraw(self, tenant: str, document_id: str, version: int, *, lock_version: int) -> int:
        return await self._store.archive(tenant, document_id, version, lock_version=lock_version)

    async def source(
        self, tenant: str, right: DocumentRight, document_id: str, version: int | None, offset: int, limit: int
    ) -> SourceSlice:
        scope = reading_scope(tenant, right.scope)
        part = await self._store.source(
            scope, document_id, version, offset, limit, include_unpublished=right.unpublished
        )
        return SourceSlice(
            data=base64.b64encode(part.data).decode(),
            size=part.size,
            media_type=part.media_type,
            filename=part.filename,
            sha256=part.sha256,
        )

    async def citations(
        self, tenant: str, scope: policy.KnowledgeScope, chunk_ids: Sequence[str]
    ) -> Sequence[Citation]:
        hits = await self._store.resolve_chunks(reading_scope(tenant, scope), chunk_ids)
        return [_citation(hit) for hit in hits]

    async def versions(
        self, tenant: str, right: DocumentRight, versions: Collection[tuple[str, int]]
    ) -> Mapping[tuple[str, int], str]:
        scope = reading_scope(tenant, right.scope)
        return await self._store.readable_versions(scope, versions, include_unpublished=right.unpublished)


def _citation(hit: Hit) -> Citation:
    return Citation(
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        title=hit.title,
        version=hit.version,
        page=hit.page,
        section=hit.section,
        snippet=hit.snippet,
        href=f"/api/documents/{hit.document_id}/source?version={hit.version}",
    )


def _view(info: DocumentInfo) -> DocumentView:
    return DocumentView(
        document_id=info.document_id,
        knowledge_base_id=info.base_id,
        title=info.title,
        version=info.version,
        status=info.status,
        lock_version=info.lock_version,
        media_type=info.media_type,
        sha256=info.sha256,
        size=info.size,
        filename=info.filename,
        latest_sha256=info.latest_sha256,
        **_reading(info),
    )


def _reading(info: DocumentInfo) -> dict[str, Any]:
    """How far the newest version has come, for those who may know of it."""
    found = info.reading
    if found is None:
        return {"latest_version": info.version}
    failure = DocumentFailure(reason=found.reason, detail=found.detail or "") if found.reason else None
    return {
        "latest_version": found.version,
        "state": found.state,
        "percent": found.percent,
        "failure": failure,
    }
