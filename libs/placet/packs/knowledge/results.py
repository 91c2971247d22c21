"""What the knowledge tools answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Passage(Answer):
    """One hit. `snippet` is for people, `text` is the whole passage for the model that has to answer from it."""

    chunk_id: str
    document_id: str
    title: str
    version: int
    page: int | None
    section: str | None
    snippet: str
    score: float
    text: str


class Passages(Answer):
    items: list[Passage]


class DocumentSource(Answer):
    """Where the original file is. `href` is authorized again when it is followed."""

    document_id: str
    title: str
    version: int
    status: str
    filename: str
    media_type: str
    size: int
    sha256: str
    href: str


class DocumentText(Answer):
    """`content` is None for a read that people had to agree to: what was agreed lies in events and records, where no
    text may lie. `href` is then where the requester reads it, authorized anew."""

    document_id: str
    version: int
    status: str
    content: str | None
    href: str | None = None


class Published(Answer):
    """`lock_version` is the document's after the publishing."""

    document_id: str
    version: int
    previous_version: int | None
    lock_version: int
    status: Literal["published"] = "published"
