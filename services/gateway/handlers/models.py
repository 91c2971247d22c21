"""Bodies and answers of the HTTP API, where the contracts have no model for them.

Bodies are stricter than messages between services: unknown fields are refused, and nothing is converted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from placet.contracts.approvals import AuditEntry, StoredEvent
from placet.contracts.directory import MAX_NAMES
from placet.contracts.documents import MAX_LISTED, Listed
from placet.contracts.execution import Citation, DocumentView
from placet.contracts.proposals import DecisionKind, FinishReason, ProposalStatus, ProposalView
from placet.contracts.runs import MAX_QUESTION_CHARS, RunFinish, RunStatus
from placet.contracts.tools import Risk, ToolDescriptor

Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Question(Body):
    # Something to read, not only blanks.
    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARS, pattern=r"\S")
    conversation_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_\-]{1,128}$")


class ToolArguments(Body):
    args: dict[str, Any]


class PublishDecision(Body):
    approved: StrictBool


class ChallengeAnswers(Body):
    resources: tuple[Name, ...] = Field(default=(), max_length=100)
    blast_radius: StrictBool = False
    rollback: StrictBool = False
    retype: str = Field(default="", max_length=500)


class Decision(Body):
    decision: DecisionKind
    digest: str = Field(min_length=1, max_length=200)
    args: dict[str, Any] | None = None
    message: str | None = Field(default=None, max_length=4000)
    acknowledgements: ChallengeAnswers | None = None


class Settlement(Body):
    outcome: Literal["executed", "not_executed"]
    note: str = Field(min_length=1, max_length=2000)


class PersonBody(Body):
    active: StrictBool
    roles: tuple[Name, ...] = Field(max_length=MAX_NAMES)
    teams: tuple[Name, ...] = Field(max_length=MAX_NAMES)
    clearance: StrictInt = Field(ge=0, le=10)


class AccessList(Body):
    """Every list that is not empty must be met; empty everywhere, the document is as open as its base.

    With `lock_version`, only a document that has not changed since is changed.
    """

    roles: tuple[Listed, ...] = Field(default=(), max_length=MAX_LISTED)
    teams: tuple[Listed, ...] = Field(default=(), max_length=MAX_LISTED)
    clearance: StrictInt = Field(default=0, ge=0, le=10)
    owner: Listed | None = None
    lock_version: StrictInt | None = Field(default=None, ge=1)


class Withdrawal(Body):
    lock_version: StrictInt | None = Field(default=None, ge=1)


class ChatAnswer(BaseModel):
    run_id: str
    conversation_id: str
    answer: str
    citations: list[Citation]
    finish_reason: RunFinish


class WaitingCard(BaseModel):
    """What may be said about a proposal before anyone has decided: metadata only."""

    proposal_id: str
    tool: str
    title: str
    risk: Risk
    expires_at: datetime


class ChatPending(BaseModel):
    run_id: str
    conversation_id: str
    status: Literal["waiting_for_human", "running"]
    proposal: WaitingCard | None = None


class RunAccepted(BaseModel):
    run_id: str


class Meter(BaseModel):
    used: float
    limit: float | None


class RunAnswer(BaseModel):
    run_id: str
    status: RunStatus
    node: str | None
    attempts: int
    budget: dict[str, Meter]
    approval: dict[str, Any] | None
    answer: str | None
    citations: list[Citation]
    finish_reason: RunFinish | None
    updated_at: datetime


class Tools(BaseModel):
    items: list[ToolDescriptor]
    next: str | None


class DecisionAnswer(BaseModel):
    effect: Literal["allow", "deny", "require_approval"]
    risk: Risk
    policy_revision: str


class ToolDone(BaseModel):
    call_id: str
    status: Literal["ok"]
    result: dict[str, Any]
    decision: DecisionAnswer


class ToolWaiting(BaseModel):
    call_id: str
    status: Literal["waiting_for_human"]
    proposal_id: str


class DocumentText(BaseModel):
    document_id: str
    version: int
    status: str
    content: str


class Hit(BaseModel):
    chunk_id: str
    document_id: str
    title: str
    version: int
    page: int | None = None
    section: str | None = None
    snippet: str
    score: float


class Hits(BaseModel):
    items: list[Hit]


class Documents(BaseModel):
    items: list[DocumentView]
    next: str | None


class PublishProposal(BaseModel):
    proposal_id: str
    status: ProposalStatus
    document_id: str
    lock_version: int
    expires_at: datetime


class PublishDecided(BaseModel):
    proposal_id: str
    status: ProposalStatus
    finish_reason: FinishReason | None


class Proposals(BaseModel):
    items: list[ProposalView]
    next: str | None


class ProposalEventList(BaseModel):
    items: list[StoredEvent]
    next: str | None


class AuditEvents(BaseModel):
    items: list[AuditEntry]
    next: str | None
