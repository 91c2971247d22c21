"""Documents over RPC: lists, metadata, original bytes and citations, each authorized at the moment of use (W10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.evidence import version_id, version_of
from placet.contracts.execution import (
    Citation,
    Citations,
    DocumentPage,
    DocumentView,
    GetDocument,
    ListDocuments,
    ReadSource,
    ResolveCitations,
    SourceSlice,
)
from placet.contracts.policy import Resource
from placet.messaging.rpc import Call
from services.tool_executor.handlers.document_rights import DocumentRights
from services.tool_executor.handlers.identity import Caller
from services.tool_executor.handlers.unpublished import UnpublishedTexts
from services.tool_executor.ports import Documents

_DENIALS = (ErrorCode.NOT_FOUND, ErrorCode.PERMISSION_DENIED, ErrorCode.TOOL_NOT_ALLOWED)


@dataclass(frozen=True, slots=True)
class DocumentCalls:
    rights: DocumentRights
    documents: Documents
    unpublished: UnpublishedTexts

    async def on_list(self, call: Call, command: ListDocuments) -> DocumentPage:
        caller = await self.rights.callers.of(command.grant, call.tenant)
        return await self.documents.page(call.tenant, await self.rights.right(caller), command.cursor, command.limit)

    async def on_get(self, call: Call, command: GetDocument) -> DocumentView:
        caller = await self.rights.callers.of(command.grant, call.tenant)
        right = await self.rights.right(caller)
        try:
            return await self.documents.one(call.tenant, right, command.document_id)
        except PlacetError as error:
            await self._denied(caller, "get-document", command.document_id, error)
            raise

    async def on_source(self, call: Call, command: ReadSource) -> SourceSlice:
        caller = await self.rights.callers.of(command.grant, call.tenant)
        right = await self.rights.right(caller)
        try:
            known = await self.documents.facts(call.tenant, right, command.document_id, command.version)
            if known is None:
                raise not_found()
            await self.unpublished.require(caller, known)
            return await self.documents.source(
                call.tenant, right, command.document_id, known.view.version, command.offset, command.limit
            )
        except PlacetError as error:
            await self._denied(caller, "read-source", command.document_id, error)
            raise

    async def on_resolve(self, call: Call, command: ResolveCitations) -> Citations:
        """Only what the caller may read now; the rest is left out without a trace (R6)."""
        caller = await self.rights.callers.of(command.grant, call.tenant)
        if not (command.chunk_ids or command.evidence) or not caller.person.active:
            return Citations(items=(), active=caller.person.active)
        scope = await self.rights.scope(caller)
        items = await self.documents.citations(call.tenant, scope, command.chunk_ids) if command.chunk_ids else ()
        found = {item.chunk_id for item in items} | {version_id(item.document_id, item.version) for item in items}
        missing = [id_ for id_ in command.evidence if id_ not in found]
        titles = await self._versions(caller, missing)
        return Citations(
            items=tuple(items),
            active=True,
            others=tuple(_bare(id_, titles) for id_ in command.chunk_ids if id_ not in found and id_ in titles),
            readable=tuple(id_ for id_ in command.evidence if id_ in found or id_ in titles),
        )

    async def _versions(self, caller: Caller, evidence: Sequence[str]) -> dict[str, tuple[str, int, str]]:
        """Of this evidence, what belongs to a version that the caller may read by any way: drafts and archived ones
        only by those who may read them as a whole (K4)."""
        known = {id_: version for id_ in evidence if (version := version_of(id_)) is not None}
        if not known:
            return {}
        right = await self.rights.right(caller)
        titles = await self.documents.versions(caller.grant.tenant, right, set(known.values()))
        return {id_: (*version, titles[version]) for id_, version in known.items() if version in titles}

    async def _denied(self, caller: Caller, action: str, document_id: str, error: PlacetError) -> None:
        if error.code in _DENIALS:
            await self.rights.refused(caller, action, Resource(type="document", id=document_id), error.code)


def _bare(chunk_id: str, titles: Mapping[str, tuple[str, int, str]]) -> Citation:
    document_id, version, title = titles[chunk_id]
    return Citation(
        chunk_id=chunk_id,
        document_id=document_id,
        title=title,
        version=version,
        snippet="",
        href=f"/api/documents/{document_id}/source?version={version}",
    )
