"""What the approval service needs of the outside, by role."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from placet.contracts.audit import AuditRecord
from placet.contracts.envelope import Event
from placet.contracts.proposals import ActionPacket, Origin, ProposalStatus, ProposalView
from services.approval.domain.state import Proposal


class StaleError(Exception):
    """The proposal has moved on since it was loaded: load and decide again."""


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """One stored event for the proposal's own history; `verified` says whether its signature holds."""

    seq: int
    name: str
    time: datetime
    data: dict[str, Any]
    verified: bool


class ProposalLog(Protocol):
    """The append-only truth about proposals."""

    async def load(self, tenant: str, proposal_id: str) -> Proposal | None:
        """The state of now."""
        ...

    async def recall(self, tenant: str, proposal_id: str) -> Proposal | None:
        """A state that may be behind: good enough to append by compare-and-set, never to refuse by."""
        ...

    async def history(self, tenant: str, proposal_id: str) -> list[HistoryItem]: ...

    async def append(
        self, tenant: str, proposal_id: str, name: str, event: Event, expected: int
    ) -> tuple[int, datetime]:
        """Append by compare-and-set; returns the new last sequence and the time. Raises `StaleError`."""
        ...


class EffectLedger(Protocol):
    async def claimed(self, tenant: str, key: str) -> bool:
        """Whether the effect of this key is being or has been executed."""
        ...


class ExpiryTimers(Protocol):
    async def arm(self, tenant: str, entity: str, at: datetime) -> None: ...


class Assessor(Protocol):
    """The executor's fresh assessment of edited arguments."""

    async def assess(self, origin: Origin, tool: str, arguments: dict[str, Any]) -> ActionPacket: ...


@dataclass(frozen=True, slots=True)
class ProposalQuery:
    """One page of a tenant's proposals, newest first. `cursor` comes from the page before."""

    tenant: str
    viewer: str
    viewer_roles: tuple[str, ...]
    status: ProposalStatus | None
    tool: str | None
    limit: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ProposalRow:
    view: ProposalView
    cursor: str


class ProposalIndex(Protocol):
    """A projection for listing: rebuilt from the log at will, never a source of truth."""

    async def store(self, tenant: str, proposal: Proposal) -> None: ...

    async def page(self, query: ProposalQuery) -> list[ProposalRow]: ...

    async def ready(self) -> bool: ...


class AuditTrail(Protocol):
    async def write(self, tenant: str, name: str, entity: str, record: AuditRecord) -> None: ...
