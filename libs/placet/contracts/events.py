"""Events of proposals and effects: what lies, signed, on the append-only streams."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from placet.contracts.envelope import Event
from placet.contracts.proposals import ActionPacket, Approval, Caller, FinishReason, Origin


class Proposed(Event):
    """A proposal is durable. `expires_at` binds the timer."""

    proposal_id: str
    idempotency_key: str
    origin: Origin
    packet: ActionPacket
    expires_at: datetime


class Merged(Event):
    """A call that asks for what is already open: `proposal_id`, its own, stands for the proposal `into`."""

    proposal_id: str
    into: str


class Joined(Event):
    """The other side of `Merged`: one more call waits for this proposal."""

    proposal_id: str
    caller: Caller


class WaitingForHuman(Event):
    """The proposal may be shown. Metadata only: this event reaches notification channels."""

    proposal_id: str
    tool: str
    title: str
    risk: str
    requester: str
    approver_roles: tuple[str, ...]
    needed: int
    expires_at: datetime


class Viewed(Event):
    """One who may decide has opened the whole packet: written once for each person, never for the requester."""

    proposal_id: str
    by: str
    digest: str | None = None


class Approved(Event):
    """One approval. `final` means the quorum is met: the executor acts on such an event and needs nothing else.

    `decision_id`, here and where somebody rejected or responded: how the decider's call named this decision.
    """

    proposal_id: str
    approval: Approval
    final: bool
    idempotency_key: str
    origin: Origin
    packet: ActionPacket
    approvals: tuple[Approval, ...]
    expires_at: datetime
    decision_id: str | None = None


class Edited(Approved):
    """An approver changed the arguments: a fresh packet, and the editor's own agreement with it."""

    previous_digest: str


class Rejected(Event):
    proposal_id: str
    by: str
    message: str | None = None
    roles: tuple[str, ...] = ()
    decision_id: str | None = None


class Responded(Event):
    proposal_id: str
    by: str
    message: str
    roles: tuple[str, ...] = ()
    decision_id: str | None = None


class Cancelled(Event):
    proposal_id: str
    by: str


class Expired(Event):
    proposal_id: str


class Superseded(Event):
    """The world moved between decision and commit: nothing was executed. `message` is the difference as a sentence."""

    proposal_id: str
    diff: dict[str, Any]
    message: str | None = None


class Regraded(Event):
    """The proposal was looked at again because policy or a person's rights have changed (B3).

    `trigger` names the change: `policy:<revision>`, or `directory:<person>@<entry revision>`; `listed:<sequence>` says
    that the listing, by which changes find proposals, showed this one late. `packet` is the action as it stands now and
    `approvals` those that still count. `withdrawn` ends the proposal with `finish_reason`.
    """

    proposal_id: str
    trigger: str
    outcome: Literal["unchanged", "more_approvals", "other_approvers", "withdrawn"]
    reason: str
    packet: ActionPacket
    idempotency_key: str
    approvals: tuple[Approval, ...] = ()
    previous_digest: str
    finish_reason: FinishReason | None = None
    diff: dict[str, Any] = Field(default_factory=dict)


class Completed(Event):
    """The end of a proposal. `outcome` is what the run gets as the tool's result; `joined` are told the same."""

    proposal_id: str
    finish_reason: FinishReason
    origin: Origin
    tool: str
    arguments: dict[str, Any]
    edited: bool = False
    decided_by: tuple[str, ...] = ()
    joined: tuple[Caller, ...] = ()
    outcome: dict[str, Any]


class _Effect(Event):
    key: str
    tool: str
    tenant: str
    requester: str
    proposal_id: str | None = None
    run_id: str | None = None
    call_id: str
    request_id: str


class Claimed(_Effect):
    """This key is being executed: written by compare-and-set before the handler runs."""

    args_digest: str
    arguments: dict[str, Any]
    approvers: tuple[str, ...] = ()
    worker: str


class Executed(_Effect):
    result: dict[str, Any]
    found_by_lookup: bool = False
    settled_by: str | None = None


class Failed(_Effect):
    """Nothing took effect. `code` says why; `conflict` and `permission_denied` end before any claim."""

    code: str
    message: str
    details: dict[str, Any] = Field(default_factory=dict)
    settled_by: str | None = None


class Unknown(_Effect):
    """Nobody knows whether it took effect: blocked until a lookup or a person settles it."""

    reason: str


class Verified(_Effect):
    result: dict[str, Any]


class VerificationFailed(_Effect):
    """The read-back does not match: a known-bad state. `rollback` names tool, arguments and the proposal to undo it."""

    result: dict[str, Any]
    observed: dict[str, Any]
    rollback: dict[str, Any] | None = None
