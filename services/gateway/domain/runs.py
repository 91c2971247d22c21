"""A run as the gateway sees it: its stored events, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from placet.contracts.runs import RunEvent, RunStatus

STARTED = "run-started"
WAITING = "run-waiting-for-human"
RESUMED = "run-resumed"
COMPLETED = "run-completed"
DELTA = "message-delta"

# What may be said about a proposal before anybody has decided: metadata, never what the approval is to release (U5).
_CARD = ("proposal_id", "tool", "title", "risk", "expires_at")

_METERS = ("steps", "tool_calls", "tokens", "cost")
_ELAPSED = "elapsed_s"


@dataclass(frozen=True, slots=True)
class RunKey:
    tenant: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RunSeen:
    """One stored event of a run. `position` is its sequence on the stream; `event.seq` counts within the run.

    `arrived` is when this process got it, by its monotonic clock.
    """

    position: int
    name: str
    time: datetime
    event: RunEvent
    arrived: float = 0.0

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def final(self) -> bool:
        return self.name == COMPLETED

    @property
    def proposal_id(self) -> str:
        """Of a waiting card, or of the decision on it."""
        return str(self.event.data.get("proposal_id", ""))

    @property
    def citations(self) -> tuple[str, ...]:
        """Ids of the passages that an answer cites."""
        listed = [one for one in self.event.data.get("citations") or () if isinstance(one, dict)]
        return tuple(dict.fromkeys(str(one["chunk_id"]) for one in listed if "chunk_id" in one))

    @property
    def evidence(self) -> tuple[str, ...]:
        """Ids of everything that its text may quote."""
        return tuple(dict.fromkeys((*self.event.rests_on, *self.citations)))


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run that no worker has picked up yet."""

    run_id: str
    owner: str
    since: datetime


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is stored about a run: the last event of each name, or all, oldest first; or its place in the queue."""

    events: tuple[RunSeen, ...] = ()
    queued: QueuedRun | None = None

    @property
    def owner(self) -> str | None:
        """Whose run it is; None when there is no such run."""
        if self.events:
            return self.events[-1].event.owner
        return self.queued.owner if self.queued else None

    @property
    def end(self) -> RunSeen | None:
        """The last event of all, once there is one."""
        return next((seen for seen in self.events if seen.final), None)

    @property
    def tells_all(self) -> bool:
        """Whether the card of the proposal it waits for is among these events: a later one may have hidden it."""
        return not self.events or not self.events[-1].event.waits_for or _open_card(self.events) is not None

    def with_end(self, end: RunSeen) -> RunRecord:
        """The same with its last event as it may be shown."""
        return replace(self, events=tuple(end if seen.final else seen for seen in self.events))


@dataclass(frozen=True, slots=True)
class RunView:
    """`GET /api/runs/{id}`."""

    run_id: str
    status: RunStatus
    node: str | None
    attempts: int
    budget: dict[str, dict[str, float | None]]
    approval: dict[str, Any] | None
    answer: str | None
    citations: list[dict[str, Any]]
    finish_reason: str | None
    updated_at: datetime


def view(record: RunRecord, now: datetime) -> RunView:
    """Fold what is stored. Raises `ValueError` for an empty record: there is nothing to show."""
    if record.events:
        return _folded(record.events, now)
    if record.queued is None:
        raise ValueError("an empty record has no view")
    queued = record.queued
    # Nobody has begun, so nothing is used; what it may use is for its worker to say.
    unused: dict[str, dict[str, float | None]] = {name: {"used": 0, "limit": None} for name in (*_METERS, _ELAPSED)}
    return RunView(queued.run_id, RunStatus.QUEUED, None, 0, unused, None, None, [], None, queued.since)


def _folded(events: tuple[RunSeen, ...], now: datetime) -> RunView:
    by_name = {seen.name: seen for seen in events}
    last = events[-1]
    final = by_name.get(COMPLETED)
    end = final.event.data if final else {}
    status = _status(events)
    return RunView(
        run_id=last.event.run_id,
        status=status,
        node=last.event.node or None,
        attempts=last.event.attempt,
        budget=_budget(last, now if status is RunStatus.RUNNING else last.time),
        approval=_approval(events),
        answer=end.get("answer"),
        citations=list(end.get("citations") or ()),
        finish_reason=end.get("finish_reason"),
        updated_at=last.time,
    )


def _status(events: tuple[RunSeen, ...]) -> RunStatus:
    by_name = {seen.name: seen for seen in events}
    if COMPLETED in by_name:
        return RunStatus.COMPLETED
    waiting, resumed = by_name.get(WAITING), by_name.get(RESUMED)
    if events[-1].event.waits_for or (waiting and (resumed is None or resumed.seq < waiting.seq)):
        return RunStatus.WAITING_FOR_HUMAN
    return RunStatus.RUNNING


def _open_card(events: tuple[RunSeen, ...]) -> RunSeen | None:
    """The last card of those on which somebody has still to decide."""
    cards = [seen for seen in events if seen.name == WAITING]
    return next((one for one in reversed(cards) if one.proposal_id in events[-1].event.waits_for), None)


def _approval(events: tuple[RunSeen, ...]) -> dict[str, Any] | None:
    """The proposal the run waits for; else the last one that it waited for, with the decision once there is one."""
    by_name = {seen.name: seen for seen in events}
    waiting, resumed = by_name.get(WAITING), by_name.get(RESUMED)
    if undecided := _open_card(events):
        return {**card(undecided.event.data), "decision": None}
    if waiting is None:
        return None
    decided = resumed is not None and resumed.seq > waiting.seq
    return {**card(waiting.event.data), "decision": resumed.event.data.get("decision") if resumed and decided else None}


def _budget(last: RunSeen, until: datetime) -> dict[str, dict[str, float | None]]:
    """`elapsed_s` is time of work, as its limit is: what passes while a person thinks is not the run's."""
    event = last.event
    used: dict[str, float] = {name: getattr(event.budget, name) for name in _METERS}
    used[_ELAPSED] = round(event.active_s + max(0.0, (until - last.time).total_seconds()), 3)
    return {name: {"used": amount, "limit": event.limits.get(name)} for name, amount in used.items()}


def card(data: dict[str, Any]) -> dict[str, Any]:
    """A waiting card, whatever else its event may hold."""
    return {name: data[name] for name in _CARD if name in data}


def in_order(seen: Iterable[RunSeen]) -> tuple[RunSeen, ...]:
    return tuple(sorted(seen, key=lambda one: one.seq))
