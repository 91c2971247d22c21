"""Commands of the approval service."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from placet.contracts.audit import AuditRecord
from placet.contracts.envelope import Command
from placet.contracts.execution import Reply
from placet.contracts.proposals import (
    Acknowledgements,
    ActionPacket,
    DecisionKind,
    FinishReason,
    Origin,
    ProposalStatus,
    ProposalView,
)


class ProposeAction(Command):
    """The executor puts an assessed action before people. `proposal_id` comes from the call: asking twice is one."""

    proposal_id: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,128}$")
    idempotency_key: str
    origin: Origin
    packet: ActionPacket


class DecideProposal(Command):
    """`decision_id` names this decision: said again under the same name, it is answered and not refused."""

    grant: str
    proposal_id: str = Field(max_length=128)
    decision: DecisionKind
    digest: str | None = Field(default=None, max_length=200)
    args: dict[str, Any] | None = None
    message: str | None = Field(default=None, max_length=4000)
    acknowledgements: Acknowledgements | None = None
    decision_id: str | None = Field(default=None, max_length=128)


class WithdrawProposal(Command):
    """A run takes back what it proposed, while nobody has decided on it.

    `leave`: only this run has no use for it any more. Where others wait for the same, it stays open for them.
    """

    grant: str
    proposal_id: str = Field(max_length=128)
    leave: bool = False


class DecisionResult(Reply):
    proposal_id: str
    status: ProposalStatus
    finish_reason: FinishReason | None = None
    digest: str


class GetProposal(Command):
    grant: str
    proposal_id: str = Field(max_length=128)


class ListProposals(Command):
    grant: str
    status: ProposalStatus | None = None
    tool: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = Field(default=None, max_length=500)


class ListProposalEvents(Command):
    grant: str
    proposal_id: str = Field(max_length=128)


class ProposalReply(Reply):
    proposal: ProposalView


class ProposalPage(Reply):
    items: tuple[ProposalView, ...]
    next: str | None = None


class StoredEvent(Reply):
    """One event as it lies on its stream; `verified` says whether its signature holds."""

    seq: int
    name: str
    time: str
    data: dict[str, Any]
    verified: bool


class ProposalEvents(Reply):
    items: tuple[StoredEvent, ...]
    next: str | None = None


class QueryAudit(Command):
    grant: str
    after: int = Field(default=0, ge=0)
    type: str | None = Field(default=None, max_length=100)
    actor: str | None = Field(default=None, max_length=128)
    run_id: str | None = Field(default=None, max_length=128)
    proposal_id: str | None = Field(default=None, max_length=128)
    request_id: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=100, ge=1, le=500)


class AuditEntry(Reply):
    seq: int
    type: str
    time: str
    record: AuditRecord


class AuditPage(Reply):
    """`next` is the `after` of the following page, or None at the end of what is stored now."""

    items: tuple[AuditEntry, ...]
    next: str | None = None
