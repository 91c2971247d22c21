"""`POST /api/documents`: a file becomes a draft version, part by part, in the name of who sent it (K1)."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import PureWindowsPath
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from placet.contracts.documents import (
    PART_BYTES,
    BeginUpload,
    DocumentDraft,
    FinishUpload,
    UploadPart,
    UploadState,
)
from placet.contracts.errors import ErrorCode, PlacetError, not_found, validation_problems
from services.gateway.errors import bad_form
from services.gateway.handlers.answers import StrictRoute, documented, json_answer
from services.gateway.handlers.caller import Caller, CallerDep
from services.gateway.handlers.exchange import ReceivedFile, exchange_of

router = APIRouter(route_class=StrictRoute, tags=["knowledge"])

_EXECUTOR = "tool-executor"
_FIELDS = frozenset({"knowledge_base_id", "title", "document_id", "trusted"})
_ID = re.compile(r"[A-Za-z0-9_\-=:]{1,128}")
# The last step reads everything that is stored once more.
_FINISH_TIMEOUT_S = 30.0
_TRUTH = {"true": True, "false": False}

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["file", "knowledge_base_id", "title"],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "Markdown, text, HTML, PDF or DOCX; what it is, the ending of its name says "
                            "and its bytes must bear out, whatever content type it is sent with.",
                        },
                        "knowledge_base_id": {"type": "string"},
                        "title": {"type": "string", "maxLength": 200},
                        "document_id": {"type": "string", "description": "A new version of this document."},
                        "trusted": {
                            "type": "string",
                            "enum": ["true", "false"],
                            "default": "true",
                            "description": "false for a text from outside: writes that follow from it may need a "
                            "person's agreement. Counts for a new document.",
                        },
                    },
                }
            }
        },
    }
}


@router.post(
    "/api/documents",
    status_code=201,
    response_model=None,
    responses=documented({201: DocumentDraft}),
    openapi_extra=_FORM,
)
async def on_upload(request: Request, caller: CallerDep) -> Response:
    """Take a file in as a draft: of a new document, or as the next version of `document_id`.

    The answer comes when the original is stored; its text is read afterwards. `GET /api/documents/{id}` shows how far
    that has come, and why it failed if it did.
    """
    file = exchange_of(request.scope).file
    if file is None:
        raise bad_form("The body is not a multipart form.")
    begin = _command(caller, file)
    state = await caller.ask(_EXECUTOR, "begin-upload", begin, UploadState)
    await _send_parts(caller, begin.upload_id, file, state.parts)
    finish = FinishUpload(grant=caller.grant(), upload_id=begin.upload_id)
    draft = await caller.ask(_EXECUTOR, "finish-upload", finish, DocumentDraft, timeout_s=_FINISH_TIMEOUT_S)
    return json_answer(draft, 201, Location=f"/api/documents/{draft.document_id}")


def _command(caller: Caller, file: ReceivedFile) -> BeginUpload:
    """Raises `PlacetError`: `invalid_request`, or `not_found` for an id that nothing can have."""
    fields = file.fields
    for name in sorted(set(fields) - _FIELDS):
        raise bad_form("No such field.", field=name[:100])
    for name in ("knowledge_base_id", "title"):
        if not fields.get(name, "").strip():
            raise bad_form("Field required.", field=name)
    document_id = fields.get("document_id") or None
    if fields.get("trusted", "true") not in _TRUTH:
        raise bad_form("true or false.", field="trusted")
    if not all(_ID.fullmatch(one) for one in (fields["knowledge_base_id"], document_id or "x")):
        raise not_found()
    try:
        return BeginUpload(
            grant=caller.grant(),
            upload_id=caller.new_id("up"),
            knowledge_base_id=fields["knowledge_base_id"],
            document_id=document_id,
            title=fields["title"].strip(),
            filename=_name(file.filename),
            size=file.size,
            sha256=file.sha256,
            trusted=_TRUTH[fields.get("trusted", "true")],
        )
    except ValidationError as error:
        problems = validation_problems(error)
        raise PlacetError(ErrorCode.INVALID_REQUEST, "The form does not fit its schema.", errors=problems) from error


def _name(given: str) -> str:
    """The file's own name: a path, in any system's spelling, says where it lay, which is nobody's business here."""
    return PureWindowsPath(given.strip()).name


async def _send_parts(caller: Caller, upload_id: str, file: ReceivedFile, known: int) -> None:
    """One part in memory at a time, from where an earlier attempt stopped."""
    parts = -(-file.size // PART_BYTES)
    file.content.seek(known * PART_BYTES)
    for index in range(known, parts):
        data = await asyncio.to_thread(file.content.read, PART_BYTES)
        command = UploadPart(
            grant=caller.grant(), upload_id=upload_id, index=index, data=base64.b64encode(data).decode()
        )
        await caller.ask(_EXECUTOR, "upload-part", command, UploadState)
