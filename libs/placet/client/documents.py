"""Documents: upload, look at, publish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from placet.client.models import Decided, DocumentVersion, Draft, PublishProposal
from placet.client.paging import pages
from placet.client.transport import Transport
from placet.contracts.documents import RebuildState
from placet.contracts.execution import DocumentView


class Documents:
    """`client.documents`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> AsyncIterator[DocumentView]:
        return pages(self._transport, "/api/documents", DocumentView, {})

    async def get(self, document_id: str) -> DocumentView:
        return DocumentView.model_validate((await self._transport.get(f"/api/documents/{document_id}")).body)

    async def source(self, document_id: str, version: int | None = None) -> bytes:
        """The original file, byte for byte."""
        return await self._transport.get_bytes(f"/api/documents/{document_id}/source", {"version": version})

    async def read(self, document_id: str) -> DocumentVersion:
        """The text of a version, parsed anew from its original; for knowledge admins."""
        answer = await self._transport.get(f"/api/tools/document-versions/{document_id}")
        return DocumentVersion.model_validate(answer.body)

    async def upload(
        self,
        name: str,
        content: bytes,
        *,
        knowledge_base_id: str,
        title: str,
        media_type: str = "application/octet-stream",
        document_id: str | None = None,
    ) -> Draft:
        """A new document, or a new version of `document_id`; a draft until it is published.

        The file is read after the answer: `get` tells by `state` and `percent` how far that is.
        """
        form = {"knowledge_base_id": knowledge_base_id, "title": title}
        if document_id is not None:
            form["document_id"] = document_id
        answer = await self._transport.post("/api/documents", form, files={"file": (name, content, media_type)})
        return Draft.model_validate(answer.body)

    async def set_acl(self, document_id: str, acl: dict[str, Any]) -> DocumentView:
        """`roles`, `teams`, `clearance`, `owner`, and `lock_version` to change only what has not changed since."""
        return DocumentView.model_validate((await self._transport.put(f"/api/documents/{document_id}/acl", acl)).body)

    async def withdraw(self, document_id: str, *, lock_version: int | None = None) -> DocumentView:
        """Archive the published version: nothing of the document is found any more."""
        body = {"lock_version": lock_version}
        answer = await self._transport.post(f"/api/documents/{document_id}/withdrawal", body)
        return DocumentView.model_validate(answer.body)

    async def start_rebuild(self) -> RebuildState:
        """Rebuild the index from the originals, or join the rebuilding that goes on."""
        return RebuildState.model_validate((await self._transport.post("/api/index/rebuilds")).body)

    async def rebuild(self, rebuild_id: str) -> RebuildState:
        return RebuildState.model_validate((await self._transport.get(f"/api/index/rebuilds/{rebuild_id}")).body)

    async def propose_publishing(self, document_id: str) -> PublishProposal:
        answer = await self._transport.post(f"/api/documents/{document_id}/publish-proposals")
        return PublishProposal.model_validate(answer.body)

    async def decide_publishing(self, proposal_id: str, *, approved: bool) -> Decided:
        path = f"/api/publish-proposals/{proposal_id}/decisions"
        return Decided.model_validate((await self._transport.post(path, {"approved": approved})).body)
