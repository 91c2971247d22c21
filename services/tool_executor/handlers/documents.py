"""Documents over RPC: lists, metadata, original bytes and citations, each authorized at the moment of use (W10)."""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import (
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
from services.tool_executor.ports import Documents


@dataclass(frozen=True, slots=True)
class DocumentCalls:
    rights: DocumentRights
    documents: Documents

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
            return await self.documents.source(
                call.tenant, right, command.document_id, command.version, command.offset, command.limit
            )
        except PlacetError as error:
            await self._denied(caller, "read-source", command.document_id, error)
            raise

    async def on_resolve(self, call: Call, command: ResolveCitations) -> Citations:
        """Only what the caller may read now; the rest is left out without a trace (R6)."""
        caller = await self.rights.callers.of(command.grant, call.tenant)
        if not command.chunk_ids or not caller.person.active:
            return Citations(items=(), active=caller.person.active)
        scope = await self.rights.scope(caller)
        items = await self.documents.citations(call.tenant, scope, command.chunk_ids)
        return Citations(items=tuple(items), active=True)

    async def _denied(self, caller: Caller, action: str, document_id: str, error: PlacetError) -> None:
        if error.code is ErrorCode.NOT_FOUND:
            await self.rights.refused(caller, action, Resource(type="document", id=document_id))
