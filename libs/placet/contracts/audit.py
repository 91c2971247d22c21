"""The audit record: who, what, when, decided by what, approved by whom, with which effect (L1)."""

from __future__ import annotations

from typing import Any

from placet.contracts.envelope import Event


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
