"""Commands of the tool-executor: the only door to any tool."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from placet.contracts.directory import Person, PersonChange
from placet.contracts.envelope import Command
from placet.contracts.proposals import ActionPacket, Origin
from placet.contracts.tools import Risk, Route, ToolDescriptor


class Reply(BaseModel):
    """Base of replies: frozen; unknown fields ignored, so that v1 can gain optional fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Budget(BaseModel):
    """What a run has used and may use; counted by the agent, judged by policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0)


class ExecuteTool(Command):
    """One tool call. `args` is what the model (or the HTTP caller) wrote: untrusted."""

    grant: str
    call_id: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,128}$")
    tool: str = Field(max_length=200)
    args: dict[str, Any]
    route: Route
    intent: str = Field(default="", max_length=20_000)
    conversation_id: str | None = None
    lineage: tuple[str, ...] = Field(default=(), max_length=200)
    authors: tuple[str, ...] = Field(default=(), max_length=200)
    untrusted_documents: tuple[str, ...] = Field(default=(), max_length=200)
    budget: Budget = Budget()


class DecisionNote(Reply):
    """The decision as callers see it."""

    effect: Literal["allow", "deny", "require_approval"]
    risk: Risk
    policy_revision: str
    reasons: tuple[str, ...] = ()


class EvidenceRef(Reply):
    """One piece of evidence a result rests on: ids and authors, never content."""

    chunk_id: str
    document_id: str
    version: int
    authors: tuple[str, ...] = ()
    trusted: bool = True


class ProposalNote(Reply):
    """What a waiting card may carry: metadata only (U5)."""

    proposal_id: str
    tool: str
    title: str
    risk: Risk
    expires_at: str


class ToolReply(Reply):
    """How a tool call ended. `stripped` names identity fields removed from the arguments (I2).

    `digest` is the proposal's, for a call that waits: what an approver will sign.
    """

    call_id: str
    tool: str
    status: Literal["ok", "waiting_for_human"]
    result: dict[str, Any] | None = None
    evidence: tuple[EvidenceRef, ...] = ()
    decision: DecisionNote
    proposal: ProposalNote | None = None
    stripped: tuple[str, ...] = ()
    idempotency_key: str | None = None
    digest: str | None = None
    repeated: bool = False


class ListTools(Command):
    grant: str
    route: Route


class ToolList(Reply):
    """`active`: whether the caller still belongs to the house; `policy_revision`: by which policy this was answered."""

    tools: tuple[ToolDescriptor, ...]
    active: bool | None = None
    policy_revision: str = ""


class AssessAction(Command):
    """Approval asks for a fresh assessment of edited arguments, in the name of the requester."""

    origin: Origin
    tool: str
    args: dict[str, Any]


class ResolveCitations(Command):
    """Re-authorize evidence by id and return what may be shown today (W6, R6).

    Without ids it only asks whether the person is still somebody here. `evidence` are ids of passages
    (`doc-001:v3:chunk-08`) or of whole versions (`doc-001:v3`) of which only is asked whether they may be read.
    """

    grant: str
    chunk_ids: tuple[str, ...] = Field(max_length=100)
    evidence: tuple[str, ...] = Field(default=(), max_length=1000)


class Citation(Reply):
    chunk_id: str
    document_id: str
    title: str
    version: int
    page: int | None = None
    section: str | None = None
    snippet: str
    href: str


class Citations(Reply):
    """`active` is the directory's word of this moment; unsaid, it counts as no.

    `items` are the passages that can be searched for. `readable` is what of `evidence` may be read, and `others` are
    passages, without their words, of versions among it that are not (or no longer) published.
    """

    items: tuple[Citation, ...]
    active: bool = False
    others: tuple[Citation, ...] = ()
    readable: tuple[str, ...] = ()


class ListDocuments(Command):
    grant: str
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = Field(default=None, max_length=500)


class GetDocument(Command):
    grant: str
    document_id: str = Field(max_length=128)


class ReadSource(Command):
    """A slice of the original file: `offset`/`limit` in bytes. Authorized again at each slice (W10)."""

    grant: str
    document_id: str = Field(max_length=128)
    version: int | None = Field(default=None, ge=1)
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=262_144, ge=1, le=524_288)


class DocumentFailure(Reply):
    """Why a file could not be read: `reason` is a stable code, `detail` is for people."""

    reason: str
    detail: str


class DocumentView(Reply):
    """A document and one of its versions: the published one, else the newest.

    `state`, `percent` and `failure` are of the newest version that the reader may see, `latest_version`: how far the
    reading of its file has come.
    """

    document_id: str
    knowledge_base_id: str
    title: str
    version: int
    status: str
    lock_version: int
    media_type: str
    sha256: str
    size: int
    filename: str = ""
    latest_version: int | None = None
    latest_sha256: str | None = None
    state: Literal["received", "reading", "indexing", "ready", "failed"] = "ready"
    percent: int = 100
    failure: DocumentFailure | None = None


class DocumentPage(Reply):
    items: tuple[DocumentView, ...]
    next: str | None = None


class SourceSlice(Reply):
    """`data` is base64; `size` the whole length in bytes."""

    data: str
    size: int
    media_type: str
    filename: str
    sha256: str = ""


class GetPerson(Command):
    grant: str
    user_id: str = Field(max_length=128)


class PutPerson(Command):
    grant: str
    user_id: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,64}$")
    change: PersonChange


class SettleEffect(Command):
    """A person says what became of an `unknown` effect (G8)."""

    grant: str
    key: str = Field(max_length=128)
    outcome: Literal["executed", "not_executed"]
    note: str = Field(min_length=1, max_length=2000)


class EffectState(Reply):
    key: str
    state: str
    tool: str | None = None
    result: dict[str, Any] | None = None


class PersonReply(Reply):
    person: Person


class PacketReply(Reply):
    packet: ActionPacket
