"""`/api/documents`: metadata, and the original file in slices, each authorized anew (W10)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from placet.contracts.documents import SetDocumentAcl, WithdrawDocument
from placet.contracts.execution import DocumentPage, DocumentView, GetDocument, ListDocuments, ReadSource, SourceSlice
from services.gateway.handlers.answers import StrictRoute, documented, json_answer, page
from services.gateway.handlers.caller import NO_NUL, Caller, CallerDep, Id
from services.gateway.handlers.models import AccessList, Documents, Withdrawal

router = APIRouter(route_class=StrictRoute, tags=["knowledge"])

_EXECUTOR = "tool-executor"
# Of whatever media type the file has.
_AS_UPLOADED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("/api/documents", response_model=None, responses=documented({200: Documents}))
async def on_list(
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=500, pattern=NO_NUL)] = None,
) -> Response:
    command = ListDocuments(grant=caller.grant(), limit=limit, cursor=cursor)
    found = await caller.ask(_EXECUTOR, "list-documents", command, DocumentPage)
    return page(found.items, found.next)


@router.get("/api/documents/{document_id}", response_model=None, responses=documented({200: DocumentView}))
async def on_get(document_id: Id, caller: CallerDep) -> Response:
    return json_answer(await find_document(caller, document_id))


@router.put("/api/documents/{document_id}/acl", response_model=None, responses=documented({200: DocumentView}))
async def on_acl(document_id: Id, body: AccessList, caller: CallerDep) -> Response:
    """Set who may read the document, of those who may read its base; effective for the next read."""
    command = SetDocumentAcl(grant=caller.grant(), document_id=document_id, **body.model_dump())
    return json_answer(await caller.ask(_EXECUTOR, "set-document-acl", command, DocumentView))


@router.post("/api/documents/{document_id}/withdrawal", response_model=None, responses=documented({200: DocumentView}))
async def on_withdraw(document_id: Id, body: Withdrawal, caller: CallerDep) -> Response:
    """Archive the published version: nothing of the document is found, cited or opened any more."""
    command = WithdrawDocument(grant=caller.grant(), document_id=document_id, lock_version=body.lock_version)
    return json_answer(await caller.ask(_EXECUTOR, "withdraw-document", command, DocumentView))


@router.get(
    "/api/documents/{document_id}/source",
    response_model=None,
    response_class=StreamingResponse,
    responses=documented({200: None}) | _AS_UPLOADED,
)
async def on_source(document_id: Id, caller: CallerDep, version: Annotated[int | None, Query(ge=1)] = None) -> Response:
    """The original file, byte for byte; of the current version unless another is named."""
    # Named before the first slice: a version published meanwhile must not be mixed in.
    pinned = version or (await find_document(caller, document_id)).version
    first = await _slice(caller, document_id, pinned, 0)
    headers = {
        # Written out, because a charset would be added to a text whose encoding nobody knows.
        "Content-Type": first.media_type,
        "Content-Length": str(first.size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(first.filename, safe='')}",
        # Somebody's file, served from our origin: nothing in it may run here.
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return StreamingResponse(_bytes(caller, document_id, pinned, first), 200, headers)


async def _bytes(caller: Caller, document_id: str, version: int, first: SourceSlice) -> AsyncIterator[bytes]:
    """Raises `PlacetError` when a later slice is refused: the client sees an answer that is too short.

    So it does when the bytes are not those that were uploaded: the last slice is held back until their digest fits.
    """
    chunk = base64.b64decode(first.data)
    digest, sent = hashlib.sha256(chunk), len(chunk)
    while sent < first.size:
        yield chunk
        chunk = base64.b64decode((await _slice(caller, document_id, version, sent)).data)
        if not chunk:
            raise RuntimeError("the original file is shorter than its recorded size")
        digest.update(chunk)
        sent += len(chunk)
    if first.sha256 and digest.hexdigest() != first.sha256:
        raise RuntimeError("the original file is not what was uploaded")
    yield chunk


async def find_document(caller: Caller, document_id: str) -> DocumentView:
    """Raises the one `not_found` for what the caller may not see."""
    command = GetDocument(grant=caller.grant(), document_id=document_id)
    return await caller.ask(_EXECUTOR, "get-document", command, DocumentView)


async def _slice(caller: Caller, document_id: str, version: int, offset: int) -> SourceSlice:
    command = ReadSource(grant=caller.grant(), document_id=document_id, version=version, offset=offset)
    return await caller.ask(_EXECUTOR, "read-source", command, SourceSlice)
