"""What hooks and handlers return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from placet.contracts.execution import EvidenceRef
from placet.contracts.proposals import Change


@dataclass(frozen=True, slots=True)
class ResourceView:
    """The resource a call touches, read now. `facts` are JSON values for policy (state, owner, amounts as text)."""

    type: str
    id: str
    version: str
    tenant: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The governed call that would undo this one."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Preview:
    """What will change: one sentence, the fields, the ids touched and how far the effect reaches."""

    summary: str
    changes: tuple[Change, ...] = ()
    touched: tuple[str, ...] = ()
    blast_radius: tuple[str, ...] = ()
    rollback: RollbackPlan | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A finished call. `data` must validate against the tool's result model; `evidence` names what it rests on."""

    data: dict[str, Any]
    evidence: tuple[EvidenceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class HandOver:
    """The handler asks that another tool be called instead; the executor governs that call from the start."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """The read-back. `observed` goes into the record when it does not match."""

    ok: bool
    observed: dict[str, Any] = field(default_factory=dict)
