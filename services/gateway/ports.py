"""What the gateway needs of the outside, by role."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from placet.contracts.envelope import Command
from placet.contracts.runs import StartRun
from placet.identity.grants import GrantMint
from placet.identity.tokens import Principal
from services.gateway.domain.idempotency import Entry
from services.gateway.domain.runs import RunKey, RunRecord, RunSeen

R = TypeVar("R", bound=BaseModel)


class Tokens(Protocol):
    async def verify(self, token: str) -> Principal:
        """Raises `PlacetError(unauthenticated)`."""
        ...


class Commands(Protocol):
    async def call(
        self, owner: str, name: str, command: Command, reply: type[R], *, tenant: str, timeout_s: float = ...
    ) -> R:
        """Raises `PlacetError`: the callee's own code, `dependency_unavailable` or `timeout`."""
        ...


class Runs(Protocol):
    """The run queue and the stored events of runs. Raises `PlacetError(dependency_unavailable)`."""

    async def start(self, tenant: str, command: StartRun) -> None:
        """Put a run into the queue. The same run id a second time is the same run."""
        ...

    async def record(self, key: RunKey) -> RunRecord:
        """What is stored now; empty for a run that does not exist.

        A run that leaves the queue while this reads may look absent: look again before saying so.
        """
        ...

    async def after(self, key: RunKey, position: int) -> list[RunSeen]:
        """All events after a stream position, in order."""
        ...


class Signal(StrEnum):
    """What a live seat says besides events."""

    # Nothing came in time.
    QUIET = "quiet"
    # Something may have been missed: read the stream.
    RECHECK = "recheck"
    # The client was too slow, or the gateway stops. The stream of events ends here and can be taken up again.
    LOST = "lost"
    CLOSED = "closed"


class Seat(Protocol):
    """A place in front of one run's live events."""

    async def next(self, timeout_s: float) -> RunSeen | Signal: ...


class Live(Protocol):
    """Live events of all runs, one subscription for the whole process."""

    def join(self, key: RunKey) -> AbstractContextManager[Seat]: ...


class Idempotency(Protocol):
    """Entries by key, changed by compare-and-set. Raises `PlacetError(dependency_unavailable)`."""

    async def create(self, key: str, entry: Entry) -> int | None:
        """The revision, or None when there is an entry already."""
        ...

    async def find(self, key: str) -> tuple[Entry, int] | None: ...

    async def replace(self, key: str, entry: Entry, revision: int) -> int | None:
        """The new revision, or None when the entry has changed since."""
        ...

    async def drop(self, key: str, revision: int) -> None:
        """Does nothing when the entry has changed since."""
        ...


class Audit(Protocol):
    async def record(self, tenant: str, name: str, *, action: str, outcome: str, **fields: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Waits:
    """In seconds."""

    chat_s: float
    heartbeat_s: float
    publish_s: float


@dataclass(frozen=True, slots=True)
class UploadSpace:
    """How large a file may be, in bytes, and places for those that arrive at the same time.

    `silence_s`: the longest wait for the next of its bytes; `whole_s`: for all of them.
    """

    max_bytes: int
    places: asyncio.Semaphore
    silence_s: float
    whole_s: float


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything a handler may reach. Made once, when the bus is connected."""

    tokens: Tokens
    mint: GrantMint
    commands: Commands
    runs: Runs
    live: Live
    idempotency: Idempotency
    audit: Audit
    waits: Waits
    uploads: UploadSpace
