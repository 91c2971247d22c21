"""Documents over RPC: lists, metadata, original bytes and citations, each authorized at the moment of use (W10)."""

from __future__ import annotations

from dataclasses import dataclass

from placet.audit.trail import AuditTrail
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
from placet.contracts.policy import KnowledgeScope, Subject
from placet.messaging.rpc import Call
from services.tool_executor.handlers.identity import Caller, Callers
from services.tool_executor.ports import DocumentRight, Documents

# Whoever may publish sees what there is to publish.
_UNPUBLISHED_DUTY = "documents.publish"


@dataclass(frozen=True, slots=True)
class DocumentCalls:
    callers: Callers
    documents: Documents
    audit: AuditTrail

    async def on_list(self, call: Call, command: ListDocuments) -> DocumentPage:
        caller = await self.callers.of(command.grant, call.tenant)
        return await self.documents.page(call.tenant, await self._right(caller), command.cursor, command.limit)

    async def on_get(self, call: Call, command: GetDocument) -> DocumentView:
        caller = await self.callers.of(command.grant, call.tenant)
        right = await self._right(caller)
        try:
            return await self.documents.one(call.tenant, right, command.document_id)
        except PlacetError as error:
            await self._denied(caller, "get-document", command.document_id, error)
            raise

    async def on_source(self, call: Call, command: ReadSource) -> SourceSlice:
        caller = await self.callers.of(command.grant, call.tenant)
        right = await self._right(caller)
        try:
            return await self.documents.source(
                call.tenant, right, command.document_id, command.version, command.offset, command.limit
            )
        except PlacetError as error:
            await self._denied(caller, "read-source", command.document_id, error)
            raise

    async def on_resolve(self, call: Call, command: ResolveCitations) -> Citations:
        """Only what the caller may read now; the rest is left out without a trace (R6)."""
        caller = await self.callers.of(command.grant, call.tenant)
        if not command.chunk_ids or not caller.person.active:
            return Citations(items=(), active=caller.person.active)
        scope = await self._scope(caller)
        items = await self.documents.citations(call.tenant, scope, command.chunk_ids)
        return Citations(items=tuple(items), active=True)

    async def _scope(self, caller: Caller) -> KnowledgeScope:
        scope = await self.callers.policy.knowledge_scope(Subject.of(caller.person))
        if scope.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no decision; nothing was done.")
        return scope

    async def _right(self, caller: Caller) -> DocumentRight:
        duty = await self.callers.duty(caller, _UNPUBLISHED_DUTY)
        return DocumentRight(await self._scope(caller), unpublished=duty.allowed)

    async def _denied(self, caller: Caller, action: str, document_id: str, error: PlacetError) -> None:
        if error.code is ErrorCode.NOT_FOUND:
            await self.audit.record(
                caller.grant.tenant,
                "access-denied",
                action=action,
                outcome="refused",
                code=error.code.value,
                actor=caller.person.id,
                roles=caller.person.roles,
                resource={"type": "document", "id": document_id[:128]},
            )
