"""The knowledge store behind the documents port."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from placet.contracts import policy
from placet.contracts.execution import Citation, DocumentPage, DocumentView, SourceSlice
from placet.knowledge.models import DocumentInfo, Hit, KnowledgeScope
from placet.knowledge.store import KnowledgeStore
from services.tool_executor.ports import DocumentRight


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
        )

    async def citations(
        self, tenant: str, scope: policy.KnowledgeScope, chunk_ids: Sequence[str]
    ) -> Sequence[Citation]:
        hits = await self._store.resolve_chunks(reading_scope(tenant, scope), chunk_ids)
        return [_citation(hit) for hit in hits]


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
    )
