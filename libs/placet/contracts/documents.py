"""Commands and events of a document's life: upload in parts, reading as a job, who may read it, withdrawal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from placet.contracts.envelope import Command, Event
from placet.contracts.execution import Reply

# A part travels as base64 in one message of at most 1 MiB.
PART_BYTES = 262_144
MAX_TITLE_CHARS = 200
MAX_LISTED = 100

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_\-=:]{1,128}$")]
# One line of what can be seen: names are shown to people who decide by them, so no character may break the line, hide,
# or turn the direction of the text around; and there is something to read.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
_SHOWN = rf"^[^{_UNSEEN}]*[^\s{_UNSEEN}][^{_UNSEEN}]*$"
Shown = Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS, pattern=_SHOWN)]
Listed = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
State = Literal["received", "reading", "indexing", "ready", "failed"]


class BeginUpload(Command):
    """Announce a file. The same `upload_id` again goes on where the first attempt stopped.

    With `document_id` the file becomes that document's next version, else a new document. `sha256` is the sender's
    claim, in hex; the stored bytes are held against it at the end. `trusted` counts for a new document only.
    """

    grant: str
    upload_id: Id
    knowledge_base_id: Id
    document_id: Id | None = None
    title: Shown
    filename: Shown
    size: int = Field(ge=0)
    sha256: str = Field(max_length=64)
    trusted: bool = True


class UploadPart(Command):
    """The part number `index` (from 0) of a file, base64; every part but the last has `PART_BYTES` bytes."""

    grant: str
    upload_id: Id
    index: int = Field(ge=0)
    data: str = Field(max_length=2 * PART_BYTES)


class FinishUpload(Command):
    grant: str
    upload_id: Id


class UploadState(Reply):
    """How many parts are stored."""

    upload_id: str
    parts: int


class DocumentDraft(Reply):
    """What an upload became."""

    document_id: str
    version: int
    status: str
    lock_version: int


class SetDocumentAcl(Command):
    """Who may read this document, of those who may read its base. Every list that is not empty must be met."""

    grant: str
    document_id: str = Field(max_length=128)
    roles: tuple[Listed, ...] = Field(default=(), max_length=MAX_LISTED)
    teams: tuple[Listed, ...] = Field(default=(), max_length=MAX_LISTED)
    clearance: int = Field(default=0, ge=0, le=10)
    owner: Listed | None = None
    lock_version: int | None = Field(default=None, ge=1)


class WithdrawDocument(Command):
    """Archive the published version: nothing of the document is found any more."""

    grant: str
    document_id: str = Field(max_length=128)
    lock_version: int | None = Field(default=None, ge=1)


class StartRebuild(Command):
    """Rebuild the index of everything the caller's tenant has; while one goes on, that one is joined."""

    grant: str
    rebuild_id: Id


class GetRebuild(Command):
    grant: str
    rebuild_id: Id


class RebuildState(Reply):
    """In versions. `failed` ones could not be read again and stay as they were."""

    rebuild_id: str
    state: Literal["running", "finished"]
    total: int
    done: int
    failed: int


class RebuildProgress(Event):
    rebuild_id: str
    total: int
    done: int
    failed: int


class _Version(Event):
    document_id: str
    version: int


class VersionReceived(_Version):
    """A file is stored as this version: the job to read it. Said again when a version seems to be forgotten."""

    sha256: str
    size: int
    by: str


class VersionProgress(_Version):
    state: State
    percent: int = Field(ge=0, le=100)


class VersionReady(_Version):
    chunks: int


class VersionFailed(_Version):
    """The file cannot be read; `reason` is a stable code."""

    reason: str
