"""Runs: the start command, cancel, and the public event types of a run (U5)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from placet.contracts.envelope import Command, Event
from placet.contracts.execution import Budget, Reply

MAX_QUESTION_CHARS = 20_000


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING_FOR_HUMAN = "waiting_for_human"
    COMPLETED = "completed"


class RunFinish(StrEnum):
    SUCCESS = "success"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"
    LIMIT_REACHED = "limit_reached"
    SUPERSEDED = "superseded"
    FAILED = "failed"


class StartRun(Command):
    grant: str
    run_id: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,128}$")
    conversation_id: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,128}$")
    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARS)


class CancelRun(Command):
    grant: str
    run_id: str = Field(max_length=128)


class CancelAccepted(Reply):
    run_id: str


# Event name on the bus -> `type` of the SSE envelope.
SSE_TYPES: dict[str, str] = {
    "run-started": "run.started",
    "run-routed": "run.routed",
    "tool-proposed": "tool.proposed",
    "tool-completed": "tool.completed",
    "message-delta": "message.delta",
    "run-waiting-for-human": "run.waiting_for_human",
    "run-resumed": "run.resumed",
    "run-completed": "run.completed",
}


class RunEvent(Event):
    """One event of a run. `seq` counts from 1 without gaps; `data` is what SSE clients get for this type.

    The rest is the run's state after the event, from which `GET /api/runs/{id}` answers: it is not streamed.
    `rests_on` names the document versions (`doc-001:v3`) whose content may be in `data`: it is shown only to who may
    read them all. What is used never goes back; `active_s` are the seconds of work, waiting for people not counted.
    `waits_for` are the proposals on which people have still to decide.
    """

    run_id: str
    seq: int = Field(ge=1)
    owner: str
    conversation_id: str
    data: dict[str, Any]
    node: str = ""
    attempt: int = 1
    epoch: int = 0
    budget: Budget = Budget()
    limits: dict[str, float] = Field(default_factory=dict)
    started_at: str = ""
    rests_on: tuple[str, ...] = ()
    active_s: float = 0.0
    waits_for: tuple[str, ...] = ()


class SummaryOf(Command):
    """Memory: whose summary, told by the grant; of which conversation."""

    grant: str
    conversation_id: str = Field(max_length=128)


class SaveSummary(SummaryOf):
    summary: str = Field(max_length=500)


class Summary(Reply):
    summary: str
    updated_at: str


class Done(Reply):
    ok: bool = True
