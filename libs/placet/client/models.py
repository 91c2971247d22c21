"""What the HTTP API answers, where the contracts have no model of it yet. Unknown fields are ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from placet.contracts.execution import Citation, DecisionNote
from placet.contracts.proposals import FinishReason, ProposalStatus
from placet.contracts.runs import RunFinish, RunStatus
from placet.contracts.tools import Risk


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class WaitingProposal(_Answer):
    """What a waiting run says about the proposal: metadata only."""

    proposal_id: str
    tool: str
    title: str
    risk: Risk
    expires_at: datetime


class Chat(_Answer):
    """One chat turn: answered (`finish_reason` set), waiting for a person (`proposal` set), or still running."""

    run_id: str
    conversation_id: str
    status: RunStatus = RunStatus.COMPLETED
    answer: str | None = None
    citations: tuple[Citation, ...] = ()
    finish_reason: RunFinish | None = None
    proposal: WaitingProposal | None = None


class Meter(_Answer):
    used: float
    limit: float | None = None


class RunState(_Answer):
    run_id: str
    status: RunStatus
    node: str | None = None
    attempts: int | None = None
    budget: dict[str, Meter] = Field(default_factory=dict)
    approval: dict[str, Any] | None = None
    answer: str | None = None
    citations: tuple[Citation, ...] = ()
    finish_reason: RunFinish | None = None
    updated_at: datetime | None = None


class RunEvent(_Answer):
    """One event of a run, as the event stream carries it. `seq` counts from 1 without gaps."""

    run_id: str
    seq: int
    type: str
    time: datetime
    data: dict[str, Any]


class ToolCall(_Answer):
    """One governed call outside a chat: done (`result`), or waiting for a person (`proposal_id`)."""

    call_id: str
    status: str
    result: dict[str, Any] | None = None
    decision: DecisionNote | None = None
    proposal_id: str | None = None


class Hit(_Answer):
    chunk_id: str
    document_id: str
    title: str
    version: int
    page: int | None = None
    section: str | None = None
    snippet: str
    score: float


class Decided(_Answer):
    """The proposal after a decision. With a quorum of two, the first approval leaves it `pending`."""

    proposal_id: str
    status: ProposalStatus
    finish_reason: FinishReason | None = None
    digest: str | None = None


class Draft(_Answer):
    document_id: str
    version: int
    status: str
    lock_version: int


class PublishProposal(_Answer):
    proposal_id: str
    status: ProposalStatus
    document_id: str
    lock_version: int
    expires_at: datetime


class DocumentVersion(_Answer):
    document_id: str
    version: int
    status: str
    content: str
