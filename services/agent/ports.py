"""What driving a run needs of the outside, by role."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from placet.contracts.events import Completed
from placet.contracts.execution import Budget, Citation, ToolReply
from placet.contracts.runs import RunFinish
from placet.contracts.tools import Route, ToolDescriptor
from services.agent.domain.asking import ComposePrompt, Condensed, Guess, Planned, PlanPrompt, Spoken
from services.agent.domain.calls import Call
from services.agent.domain.patience import NOT_WAITED, Waited
from services.agent.domain.resume import Parked
from services.agent.domain.run import Place, Run, RunRecord


class Lease(Protocol):
    """The right to drive one run. `epoch` grows with every lease of any run."""

    @property
    def epoch(self) -> int: ...

    def check(self) -> None:
        """Raises `LeaseLostError` when another worker may have taken over."""
        ...

    async def wait_lost(self) -> None:
        """Returns when the lease is lost; else never."""
        ...

    async def release(self) -> None: ...


class Leases(Protocol):
    async def acquire(self, tenant: str, run_id: str) -> Lease | None:
        """None while another worker holds it."""
        ...


class RunLog(Protocol):
    """One run's events, written under a lease."""

    @property
    def record(self) -> RunRecord: ...

    def at(self, place: Place) -> None:
        """Where the run stands: what the following events say beside their data."""
        ...

    async def append(self, name: str, data: dict[str, Any], rests_on: Sequence[str] = ()) -> bool:
        """Append the next event by compare-and-set; False when this very event is there already.

        `rests_on`: the document versions whose content may be in `data`.
        Raises `FencedError` when somebody else has appended, `PlacetError(dependency_unavailable)`.
        """
        ...


class RunLogs(Protocol):
    async def read(self, tenant: str, run_id: str) -> RunRecord: ...

    async def open(self, run: Run, *, epoch: int, attempt: int) -> RunLog: ...


class RunControl(Protocol):
    """What outlives a drive beside events and checkpoints: the run with its grant, and the wish to cancel it."""

    async def remember(self, run: Run) -> None: ...

    async def recall(self, tenant: str, run_id: str) -> Run | None: ...

    async def forget(self, tenant: str, run_id: str) -> None: ...

    async def park(self, tenant: str, parked: Parked) -> None:
        """Remember what a waiting run rests on, so that it is found when rights change."""
        ...

    async def parked(self, tenant: str) -> list[Parked]:
        """The waiting runs of a tenant; some that go on already may be among them."""
        ...

    async def request_cancel(self, tenant: str, run_id: str, by: str) -> None: ...

    async def cancel_requested_by(self, tenant: str, run_id: str) -> str | None: ...

    async def waited_of(self, tenant: str, run_id: str) -> Waited:
        """How long this run has waited for parts that were away."""
        ...

    async def keep_waited(self, tenant: str, run_id: str, waited: Waited) -> None: ...

    async def count_failure(self, tenant: str, run_id: str) -> int:
        """How many drives of this run have failed, this one included."""
        ...


@dataclass(frozen=True, slots=True)
class Influence:
    """What the evidence seen so far says about a call: policy judges by it."""

    lineage: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    untrusted_documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offered:
    """What a run may see on a route. `active`: whether its owner still belongs to the house; None: nobody said."""

    tools: tuple[ToolDescriptor, ...] = ()
    active: bool | None = None
    policy_revision: str = ""


class ToolDoor(Protocol):
    """The executor. Every method raises `PlacetError` with the executor's code."""

    async def offered(self, run: Run, route: Route) -> Offered: ...

    async def execute(
        self, run: Run, call: Call, route: Route, *, influence: Influence, budget: Budget, timeout_s: float
    ) -> ToolReply: ...

    async def resolve(self, run: Run, chunk_ids: Sequence[str]) -> tuple[Citation, ...]:
        """What of these may be shown to the owner now."""
        ...

    async def readable(self, run: Run, evidence: Sequence[str]) -> frozenset[str]:
        """What of this evidence belongs to document versions that the owner may read now."""
        ...


class Proposals(Protocol):
    async def withdraw(self, run: Run, proposal_id: str, *, leave: bool = False) -> bool:
        """False when it has been decided already, or is not there. `leave`: others who wait for it keep it."""
        ...


class Summaries(Protocol):
    """The conversation's memory. Never raises: a run without its hint is still a run."""

    async def load(self, run: Run) -> str | None: ...

    async def save(self, run: Run, summary: str) -> None: ...


class TenantCosts(Protocol):
    """What the runs of a tenant have spent on models today."""

    async def spent(self, tenant: str) -> float:
        """Raises `PlacetError(dependency_unavailable)`."""
        ...

    async def add(self, tenant: str, cost: float) -> None:
        """Never raises: an answer that was paid for is not thrown away because it could not be counted."""
        ...


class Trail(Protocol):
    async def record(self, tenant: str, name: str, *, action: str, outcome: str, **fields: Any) -> None: ...

    async def security_event(self, tenant: str, kind: str, **fields: Any) -> None: ...


class Model(Protocol):
    """The language model. `plan` and `compose` raise `ModelUnavailableError`; the others never raise."""

    @property
    def version(self) -> str:
        """Another one when the model, or anything it is told, has changed."""
        ...

    async def route(self, question: str, *, timeout_s: float) -> Guess: ...

    async def condense(self, text: str, *, timeout_s: float) -> Condensed: ...

    async def plan(self, prompt: PlanPrompt, *, timeout_s: float) -> Planned: ...

    def compose(self, prompt: ComposePrompt, *, timeout_s: float) -> AsyncGenerator[Spoken, None]: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """How a run is to end.

    `asked`: the question as it was searched for, where the next one may lean on it; `told`: what was done, or which
    documents answered. That is all that is remembered of a run. `rests_on`: the document versions that the answer was
    written from, cited or not.
    """

    finish: RunFinish
    answer: str
    citations: tuple[Citation, ...] = ()
    asked: str | None = None
    told: str = ""
    rests_on: tuple[str, ...] = ()


class Ending(Protocol):
    async def complete(self, run: Run, log: RunLog, draft: Draft) -> None:
        """Audit, then append `run-completed`. Doing it twice is doing it once."""
        ...


class Drive(Protocol):
    """One drive in progress, as the driver sees it."""

    @property
    def patient(self) -> bool:
        """Whether the run may wait on for a part that is away."""
        ...

    @property
    def waited(self) -> Waited:
        """What the run had waited before this drive."""
        ...

    def waits(self, pause_s: float) -> Waited:
        """The same once `pause_s` more are over, the time that this drive has spent in vain included."""
        ...

    async def run(self) -> bool:
        """Drive until the run is completed (True) or waits for people (False).

        Raises `AbandonedError`, `FencedError`, `LeaseLostError`, `NotParkedError`, `PlacetError`, and whatever the
        database raises.
        """
        ...

    def drain(self) -> None:
        """Stop before the next node, with `DrainedError`."""
        ...

    async def abandon(self, timeout_s: float) -> list[str]:
        """Give up calls in mid-air, after waiting `timeout_s` seconds for them; returns the proposals they made."""
        ...

    async def done_so_far(self) -> list[str]:
        """One sentence for every change that this run has already made."""
        ...

    def parked(self) -> Parked:
        """What the run rests on, after `run` has returned False."""
        ...

    async def last_words(self, reasons: tuple[str, ...]) -> Draft:
        """How a run ends that is given up: by what it did, with the decision that has come, without a model."""
        ...


class Engine(Protocol):
    def prepare(
        self, run: Run, log: RunLog, lease: Lease, completed: Completed | None, waited: Waited = NOT_WAITED
    ) -> Drive: ...

    async def forget(self, tenant: str, run_id: str) -> None:
        """Drop the checkpoints of a completed run."""
        ...
