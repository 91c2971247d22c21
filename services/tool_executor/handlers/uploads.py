"""A file arrives in parts and becomes a draft version (K1).

Authorized when it is announced and again when it becomes a version; in between, parts lie where nobody sees them.
Every step may be repeated: the upload's id says what has been done. A worker that dies before the version is
committed leaves an upload that its sender finishes or that is swept; one that dies after it leaves a version whose
`version-received`, the job to read it, is said again by its sender or by the sweep.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from placet.audit.trail import AuditTrail
from placet.contracts.digests import derived_id
from placet.contracts.documents import (
    PART_BYTES,
    BeginUpload,
    DocumentDraft,
    FinishUpload,
    UploadPart,
    UploadState,
    VersionReceived,
)
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.policy import Resource
from placet.identity.grants import Purpose
from placet.knowledge.models import Upload
from placet.messaging.rpc import Call
from services.tool_executor.handlers.document_rights import DocumentRights
from services.tool_executor.handlers.identity import Caller
from services.tool_executor.ports import KnowledgeEvents, Uploads

_DUTY = "documents.create"


@dataclass(frozen=True, slots=True)
class UploadCalls:
    rights: DocumentRights
    uploads: Uploads
    events: KnowledgeEvents
    audit: AuditTrail
    max_bytes: int

    async def on_begin(self, call: Call, command: BeginUpload) -> UploadState:
        caller = await self.rights.callers.of(command.grant, call.tenant, purpose=Purpose.REQUEST)
        if command.size > self.max_bytes:
            message = f"Files may have {self.max_bytes} bytes."
            raise PlacetError(ErrorCode.PAYLOAD_TOO_LARGE, message, limit=self.max_bytes)
        await self._authorize(caller, command.knowledge_base_id, command.document_id)
        made = derived_id("doc", call.tenant, caller.person.id, command.upload_id)
        upload = await self.uploads.begin(
            Upload(
                tenant=call.tenant,
                upload_id=command.upload_id,
                actor=caller.person.id,
                base_id=command.knowledge_base_id,
                document_id=command.document_id or made,
                is_new=command.document_id is None,
                title=command.title.strip(),
                filename=command.filename,
                trusted=command.trusted,
                size=command.size,
                sha256=command.sha256,
            )
        )
        return UploadState(upload_id=upload.upload_id, parts=len(upload.parts))

    async def on_part(self, call: Call, command: UploadPart) -> UploadState:
        caller = await self.rights.callers.of(command.grant, call.tenant, purpose=Purpose.REQUEST)
        upload = await self.uploads.find(call.tenant, command.upload_id, caller.person.id)
        known = len(upload.parts)
        if command.index == known and upload.version is None:
            await self.uploads.add_part(upload, command.index, _part(upload, command))
            known += 1
        elif command.index > known:
            raise PlacetError(ErrorCode.CONFLICT, "A part before this one is missing.", parts=known)
        return UploadState(upload_id=upload.upload_id, parts=known)

    async def on_finish(self, call: Call, command: FinishUpload) -> DocumentDraft:
        caller = await self.rights.callers.of(command.grant, call.tenant, purpose=Purpose.REQUEST)
        upload = await self.uploads.find(call.tenant, command.upload_id, caller.person.id)
        await self._authorize(caller, upload.base_id, None if upload.is_new else upload.document_id)
        state = await self.uploads.finish(upload)
        received = VersionReceived(
            document_id=state.document_id,
            version=state.version,
            sha256=upload.sha256,
            size=upload.size,
            by=caller.person.id,
        )
        once = f"{state.document_id}:v{state.version}"
        await self.events.write(call.tenant, "version-received", state.document_id, received, once=once)
        await self.audit.record(
            call.tenant,
            "document-changed",
            action=_DUTY,
            outcome="ok",
            actor=caller.person.id,
            roles=caller.person.roles,
            resource={"type": "document", "id": state.document_id, "version": str(state.lock_version)},
            result={"version": state.version, "base": upload.base_id, "sha256": upload.sha256, "size": upload.size},
        )
        return DocumentDraft(
            document_id=state.document_id,
            version=state.version,
            status=state.status,
            lock_version=state.lock_version,
        )

    async def _authorize(self, caller: Caller, base_id: str, document_id: str | None) -> None:
        """Raises `not_found` for a base the caller cannot read, and for a document of it that they cannot read."""
        tenant = caller.grant.tenant
        scope = await self.rights.scope(caller)
        place = await self.uploads.place(tenant, scope, base_id, document_id)
        facts = {
            "tenant": tenant,
            "readable": place is not None,
            "owners": list(place.owners) if place is not None else [],
        }
        resource = Resource(type="knowledge_base", id=base_id, properties=facts)
        await self.rights.require(caller, _DUTY, resource)
        if place is None or not place.document_found:
            await self.rights.refused(caller, _DUTY, Resource(type="document", id=document_id or base_id))
            raise not_found()


def _part(upload: Upload, command: UploadPart) -> bytes:
    """The bytes of a part. Raises `PlacetError(invalid_request)` unless it has exactly the length of its place."""
    left = upload.size - command.index * PART_BYTES
    try:
        data = base64.b64decode(command.data, validate=True)
    except binascii.Error:
        data = b""
    if left <= 0 or len(data) != min(left, PART_BYTES):
        raise PlacetError(ErrorCode.INVALID_REQUEST, "The part has not the length that its place asks for.")
    return data
