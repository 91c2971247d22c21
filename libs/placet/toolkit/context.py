"""What a handler gets to know about the call it serves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Actor:
    """The person on whose behalf the call runs, with the directory's facts of this moment."""

    tenant: str
    id: str
    active: bool
    roles: frozenset[str]
    teams: frozenset[str]
    clearance: int


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call. `idempotency_key` is made by the system and set for every call that may have an effect.

    `resource_version` is the version that was assessed (and, where people agreed, signed): a handler that changes the
    resource compares it inside its own transaction. `now` is the executor's clock at the start of the call (UTC);
    hooks use it instead of their own.
    """

    actor: Actor
    call_id: str
    request_id: str
    now: datetime
    run_id: str | None = None
    idempotency_key: str | None = None
    resource_version: str | None = None
    approvers: tuple[str, ...] = ()

    @property
    def tenant(self) -> str:
        return self.actor.tenant
