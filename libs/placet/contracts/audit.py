"""The audit record: who, what, when, decided by what, approved by whom, with which effect (L1); and its seals (L2)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from placet.contracts.envelope import Event

# Seals belong to no tenant: one chain per stream, over the events of all tenants.
SEAL_TENANT = "platform"
SEAL_OWNER = "seal"
SEALED = "sealed"
# What is sealed, in the order in which it is verified. The entity of a seal is the name of its stream.
SEALED_STREAMS = ("AUDIT", "APPROVALS", "EFFECTS")


class AuditRecord(Event):
    """One line of the record. `arguments` are masked where policy says so; `decision_input` replays the decision."""

    service: str
    action: str
    outcome: str
    actor: str | None = None
    roles: tuple[str, ...] = ()
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None
    decision_input: dict[str, Any] | None = None
    policy_revision: str | None = None
    approvers: tuple[str, ...] = ()
    code: str | None = None
    result: dict[str, Any] | None = None
    run_id: str | None = None
    call_id: str | None = None
    proposal_id: str | None = None
    idempotency_key: str | None = None
    request_id: str
    note: str | None = None


class Sealed(Event):
    """One link of a stream's chain: what lay at sequences `from_seq` to `to_seq` when it was sealed.

    `leaves` is the base64 of one SHA-256 per sequence (all zeros where nothing lay), so that a broken event can be
    named; `root` (hex) is over all of this and `previous`, the root of the seal before. The event that carries a seal
    is signed.
    """

    stream: str
    number: int = Field(ge=1)
    from_seq: int = Field(ge=1)
    to_seq: int = Field(ge=1)
    count: int = Field(ge=0)
    previous: str
    root: str
    leaves: str
