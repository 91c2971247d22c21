"""The proposal packet: what an approver signs (A1)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from placet.contracts.policy import Obligations
from placet.contracts.tools import Risk


class ProposalStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    EXECUTING = "executing"
    COMPLETED = "completed"


class FinishReason(StrEnum):
    SUCCESS = "success"
    REJECTED = "rejected"
    RESPONDED = "responded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    DENIED = "denied"
    FAILED = "failed"
    VERIFICATION_FAILED = "verification_failed"
    UNKNOWN = "unknown"


class DecisionKind(StrEnum):
    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RESPOND = "respond"


class _Value(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ResourceRef(_Value):
    """What a call touches. `version` is the resource's own version as text, compared at commit (A8)."""

    type: str
    id: str
    version: str


class Change(_Value):
    """One field that will change, for the preview."""

    field: str
    before: Any = None
    after: Any = None


class Rollback(_Value):
    """The plan that would undo the effect (B9).

    `rehearsed`: before the proposal was surfaced, the undo was put before policy and its tool asked, and nothing
    stood against it. When not, `note` says why.
    """

    tool: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    rehearsed: bool = False
    note: str = ""


class Challenge(_Value):
    """What the approver must acknowledge: the touched resources and the argument whose value is retyped (A5)."""

    resources: tuple[str, ...]
    retype: str


class Acknowledgements(BaseModel):
    """The approver's answer to a `Challenge`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resources: tuple[str, ...] = Field(default=(), max_length=100)
    blast_radius: bool = False
    rollback: bool = False
    retype: str = Field(default="", max_length=500)


class ActionPacket(_Value):
    """A fully assessed action: everything about it that does not depend on who decides.

    `digest` covers arguments, resource version, tool schema hash and policy revision (world-bound). `facts` are the
    resource's at that version: what a later difference is explained with.
    """

    tool: str
    tool_version: str
    title: str
    arguments: dict[str, Any]
    args_digest: str
    schema_hash: str
    digest: str
    resource: ResourceRef | None
    permissions: tuple[str, ...]
    blast_radius: tuple[str, ...]
    preview: tuple[Change, ...]
    summary: str
    rollback: Rollback
    risk: Risk
    policy_revision: str
    obligations: Obligations
    challenge: Challenge | None
    facts: dict[str, Any] = Field(default_factory=dict)


class Origin(_Value):
    """Where a proposal comes from: the requester and the run or HTTP call that asked.

    `rollback_of`: the proposal that this one offers to undo, or the effect's key when it ran without one. Such an
    offer is the program's own: it belongs to no run, so that no run waits for it.
    """

    tenant: str
    requester: str
    run_id: str | None
    call_id: str
    route: str
    conversation_id: str | None = None
    intent: str = Field(default="", max_length=20_000)
    lineage: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    untrusted_documents: tuple[str, ...] = ()
    request_id: str
    rollback_of: str | None = None


class Caller(_Value):
    """A further call that asks for the very same: it has no proposal of its own and is told how this one ends."""

    proposal_id: str
    run_id: str | None = None
    call_id: str
    request_id: str


class Approval(_Value):
    """One person's agreement with one digest."""

    by: str
    at: datetime
    digest: str
    roles: tuple[str, ...] = ()


class ApprovalCount(_Value):
    needed: int
    given: tuple[Approval, ...] = ()


class ProposalView(_Value):
    """The packet as `GET /api/proposals/{id}` answers it."""

    proposal_id: str
    status: ProposalStatus
    finish_reason: FinishReason | None
    tool: str
    title: str
    summary: str
    arguments: dict[str, Any]
    digest: str
    intent: str
    lineage: tuple[str, ...]
    authors: tuple[str, ...]
    resource: ResourceRef | None
    permissions: tuple[str, ...]
    blast_radius: tuple[str, ...]
    preview: tuple[Change, ...]
    rollback: Rollback
    risk: Risk
    policy_revision: str
    idempotency_key: str
    requester: str
    run_id: str | None
    request_id: str
    approvals: ApprovalCount
    challenge: Challenge | None
    created_at: datetime
    expires_at: datetime
    outcome: dict[str, Any] | None
    rollback_of: str | None = None
