"""Who may read a document, and taking it back: for whom policy says so, effective for everybody's next read (R4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.audit.trail import AuditTrail
from placet.contracts.documents import SetDocumentAcl, WithdrawDocument
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.execution import DocumentView
from placet.contracts.policy import Resource
from placet.identity.grants import Purpose
from placet.messaging.rpc import Call
from services.tool_executor.handlers.document_rights import DocumentRights
from services.tool_executor.handlers.identity import Caller
from services.tool_executor.ports import DocumentFacts, Documents

_ACL = "documents.acl"
_WITHDRAW = "documents.withdraw"


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    rights: DocumentRights
    documents: Documents
    audit: AuditTrail

    async def on_acl(self, call: Call, command: SetDocumentAcl) -> DocumentView:
        """The document as it stands after the change, which may be the last that its caller sees of it."""
        caller, known = await self._authorized(call, command.grant, command.document_id, _ACL)
        lock_version = await self.documents.set_acl(call.tenant, command)
        change = command.model_dump(mode="json", include={"roles", "teams", "clearance", "owner"})
        await self._record(caller, _ACL, command.document_id, lock_version, change)
        return known.view.model_copy(update={"lock_version": lock_version})

    async def on_withdraw(self, call: Call, command: WithdrawDocument) -> DocumentView:
        caller, known = await self._authorized(call, command.grant, command.document_id, _WITHDRAW)
        if known.published_version is None:
            raise PlacetError(ErrorCode.CONFLICT, "The document has no published version.", status=known.view.status)
        expected = known.view.lock_version if command.lock_version is None else command.lock_version
        lock_version = await self.documents.withdraw(
            call.tenant, command.document_id, known.published_version, lock_version=expected
        )
        withdrawn = {"version": known.published_version, "status": "archived"}
        await self._record(caller, _WITHDRAW, command.document_id, lock_version, withdrawn)
        return known.view.model_copy(update={"lock_version": lock_version, "status": "archived"})

    async def _authorized(self, call: Call, grant: str, document_id: str, duty: str) -> tuple[Caller, DocumentFacts]:
        """Raises `not_found` for what the caller cannot read, `permission_denied` for what they may only read."""
        caller = await self.rights.callers.of(grant, call.tenant, purpose=Purpose.REQUEST)
        right = await self.rights.right(caller)
        known = await self.documents.facts(call.tenant, right, document_id)
        facts = {
            "tenant": call.tenant,
            "readable": known is not None,
            "base": known.view.knowledge_base_id if known else None,
            "owners": list(known.owners) if known else [],
        }
        await self.rights.require(caller, duty, Resource(type="document", id=document_id, properties=facts))
        if known is None:
            raise not_found()
        return caller, known

    async def _record(
        self, caller: Caller, action: str, document_id: str, lock_version: int, result: dict[str, Any]
    ) -> None:
        await self.audit.record(
            caller.grant.tenant,
            "document-changed",
            action=action,
            outcome="ok",
            actor=caller.person.id,
            roles=caller.person.roles,
            resource={"type": "document", "id": document_id, "version": str(lock_version)},
            result=result,
        )
