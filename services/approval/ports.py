"""What the approval service needs of the outside, by role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from placet.contracts.envelope import Event
from placet.contracts.proposals import ActionPacket, Origin, ProposalStatus, ProposalView
from services.approval.domain.state import Proposal

Clock = Callable[[], datetime]


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


@dataclass(frozen=True, slots=True)
class Found:
    """What lies under a proposal's id: the proposal, or where the call of that id was merged, or nothing."""

    state: Proposal | None = None
    merged_into: str | None = None
    last_seq: int = 0


class ProposalLog(Protocol):
    """The append-only truth about proposals."""

    async def find(self, tenant: str, proposal_id: str) -> Found: ...

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


class RunEnds(Protocol):
    async def ended(self, tenant: str, run_id: str) -> bool:
        """Whether this run has ended, so that it takes up no decision any more."""
        ...


class ExpiryTimers(Protocol):
    async def arm(self, tenant: str, entity: str, at: datetime) -> None: ...


@dataclass(frozen=True, slots=True)
class Claim:
    """Who holds a key: a proposal's id, and the revision under which it does."""

    holder: str
    revision: int


class OpenProposals(Protocol):
    """Which proposals are open, as keys on the bus: several replicas admit as one. Keys end by themselves."""

    async def claim(self, key: str, proposal_id: str, ttl_s: int, *, glance: bool = False) -> Claim:
        """Take `key` for this proposal, or learn who has it. With `glance`, whoever had it when last seen will do."""
        ...

    async def take_over(self, key: str, proposal_id: str, ttl_s: int, revision: int) -> Claim | None:
        """Take `key` from its holder of that revision; None when it has changed hands meanwhile."""
        ...

    async def release(self, key: str, revision: int, ttl_s: int) -> None:
        """Give back a key that no proposal came to stand for, if it is still held under the same revision.

        `ttl_s` is for how long it had been taken.
        """
        ...


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


@dataclass(frozen=True, slots=True)
class Place:
    """A proposal by its key, for going through many of them in order."""

    tenant: str = ""
    proposal_id: str = ""


@dataclass(frozen=True, slots=True)
class Born:
    """Where on the stream a proposal begins."""

    tenant: str
    proposal_id: str
    seq: int


class ProposalHistory(Protocol):
    async def proposed(self, after: int, limit: int) -> list[Born]:
        """The beginnings of proposals of all tenants behind stream sequence `after`, in order."""
        ...


class ProposalIndex(Protocol):
    """A projection for listing: rebuilt from the log at will, never a source of truth."""

    async def store(self, tenant: str, proposal: Proposal) -> None: ...

    async def page(self, query: ProposalQuery) -> list[ProposalRow]: ...

    async def pending_of(self, tenant: str, person: str, after: Place, limit: int) -> list[Place]:
        """Undecided proposals that this person asked for, or has approved; in order, behind `after`."""
        ...

    async def pending_under_other(self, revision: str, after: Place, limit: int) -> list[Place]:
        """Undecided proposals of all tenants that were judged by another policy than `revision`."""
        ...

    async def ready(self) -> bool: ...
