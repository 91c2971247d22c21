"""What the knowledge tools accept. Strict and closed: a wrong type or an unknown field is refused, not repaired."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _storable(value: str) -> str:
    """PostgreSQL has no U+0000, and a text of blanks asks for nothing."""
    if "\x00" in value:
        raise ValueError("must not contain U+0000")
    if not value.strip():
        raise ValueError("must not be blank")
    return value


_CLEAN = AfterValidator(_storable)
DocumentId = Annotated[str, Field(min_length=1, max_length=128), _CLEAN]
Version = Annotated[int, Field(ge=1, le=2_147_483_647)]


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SearchKnowledge(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=4000), _CLEAN]
    k: int = Field(default=8, ge=1, le=20, description="How many passages.")


class GetDocumentSource(Arguments):
    document_id: DocumentId
    version: Version | None = Field(default=None, description="The published version when left out.")


class ReadDocumentVersion(Arguments):
    document_id: DocumentId
    version: Version | None = Field(default=None, description="The published version, else the newest, when left out.")


class CreatePublishProposal(Arguments):
    document_id: DocumentId


class ApplyPublishDecision(Arguments):
    """`lock_version` is the document's when the proposal was made: any change since then refuses the publishing."""

    document_id: DocumentId
    version: Version
    lock_version: Version
