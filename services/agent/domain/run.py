"""Who asked what, and the state of a run as its own events tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from placet.contracts.errors import RULES, ErrorCode
from placet.contracts.execution import Budget
from placet.contracts.runs import RunEvent
from services.agent.domain.language import Language, language_of


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `grant` is the signed permission to act for `owner` in this run, checked before this value is made."""

    tenant: str
    run_id: str
    owner: str
    conversation_id: str
    question: str
    grant: str
    request_id: str

    @property
    def language(self) -> Language:
        return language_of(self.question)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The fold of a run's events. `last_seq` is the stream sequence that the next event must follow.

    `proposed` maps a call to its tool, `announced` a proposal to its call; `streamed` is the text of all deltas so far;
    `doubtful` are calls that ended without an answer.
    """

    seq: int = 0
    last_seq: int = 0
    owner: str | None = None
    conversation_id: str = ""
    started_at: str = ""
    epoch: int = 0
    routed: bool = False
    proposed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    settled: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    announced: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    resumed: frozenset[str] = frozenset()
    streamed: str = ""
    finish_reason: str | None = None
    node: str = ""
    budget: Budget = field(default_factory=Budget)
    active_s: float = 0.0

    @property
    def started(self) -> bool:
        return self.seq > 0

    @property
    def completed(self) -> bool:
        return self.finish_reason is not None

    @property
    def waiting(self) -> dict[str, str]:
        """Proposals on which the run waits, and their calls."""
        return {proposal: call for proposal, call in self.announced.items() if proposal not in self.resumed}

    def waits_after(self, name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Proposals on which it waits once this event is there, too."""
        if name == "run-completed":
            return ()
        this = str(data.get("proposal_id", ""))
        still = [proposal for proposal in self.waiting if name != "run-resumed" or proposal != this]
        return (*still, this) if name == "run-waiting-for-human" else tuple(still)

    @property
    def unaccounted(self) -> frozenset[str]:
        """Calls of which a proposal may be made, or have been made, that this run knows nothing of."""
        return frozenset(self.proposed) - self.settled - set(self.announced.values()) | self.doubtful

    def proposal_of(self, call_id: str) -> str | None:
        """The proposal that was announced for this call."""
        return next((proposal for proposal, call in self.announced.items() if call == call_id), None)

    def has(self, name: str, data: Mapping[str, Any]) -> bool:
        """Whether this very event is there: a node that runs again after a crash appends nothing twice."""
        known = {
            "run-started": self.started,
            "run-routed": self.routed,
            "tool-proposed": data.get("call_id") in self.proposed,
            "tool-completed": data.get("call_id") in self.settled,
            "run-waiting-for-human": data.get("proposal_id") in self.announced,
            "run-resumed": data.get("proposal_id") in self.resumed,
            "run-completed": self.completed,
        }
        return known.get(name, False)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event of the run with its place on the stream."""

    seq: int
    name: str
    event: RunEvent


def fold(history: Iterable[Recorded]) -> RunRecord:
    record = RunRecord()
    for recorded in history:
        record = advance(record, recorded)
    return record


def advance(record: RunRecord, recorded: Recorded) -> RunRecord:
    """The record after one more event."""
    event = recorded.event
    first = not record.started
    record = replace(
        record,
        seq=event.seq,
        last_seq=recorded.seq,
        node=event.node or record.node,
        budget=at_least(event.budget, record.budget),
        active_s=max(event.active_s, record.active_s),
        epoch=max(record.epoch, event.epoch),
        owner=event.owner if first else record.owner,
        conversation_id=event.conversation_id if first else record.conversation_id,
        started_at=event.started_at if first else record.started_at,
    )
    change = _CHANGES.get(recorded.name)
    return replace(record, **change(record, event.data)) if change else record


def at_least(counted: Budget, before: Budget) -> Budget:
    """What is used by now: a worker that has just taken over, or that only ends the run, has counted nothing yet."""
    meters = {name: max(getattr(counted, name), getattr(before, name)) for name in Budget.model_fields}
    return Budget(**meters)


def _call_of(record: RunRecord, tool: str) -> str:
    """The call that a proposal belongs to. What people see of a waiting run names no call; but calls that may wait
    are made one after the other, so it is the latest open call of that tool."""
    taken = set(record.announced.values())
    calls = [call for call, name in record.proposed.items() if name == tool and call not in record.settled | taken]
    return calls[-1] if calls else ""


# Who was asked last did not answer, or did not know: an earlier asking of the same call may still be at work.
_WITHOUT_ANSWER = {code.value for code, rule in RULES.items() if rule.retryable} | {ErrorCode.OUTCOME_UNKNOWN.value}

_Change = Callable[[RunRecord, Mapping[str, Any]], dict[str, Any]]

_CHANGES: dict[str, _Change] = {
    "run-routed": lambda _, data: {"routed": True},
    "tool-proposed": lambda record, data: {
        "proposed": {**record.proposed, str(data.get("call_id")): str(data.get("tool"))}
    },
    "tool-completed": lambda record, data: {
        "settled": record.settled | {data.get("call_id")},
        "doubtful": record.doubtful | ({data.get("call_id")} if data.get("code") in _WITHOUT_ANSWER else set()),
    },
    "run-waiting-for-human": lambda record, data: {
        "announced": {**record.announced, str(data.get("proposal_id")): _call_of(record, str(data.get("tool")))}
    },
    "run-resumed": lambda record, data: {"resumed": record.resumed | {data.get("proposal_id")}},
    "message-delta": lambda record, data: {"streamed": record.streamed + str(data.get("text", ""))},
    "run-completed": lambda _, data: {"finish_reason": str(data.get("finish_reason", "failed"))},
}


@dataclass(frozen=True, slots=True)
class Place:
    """What a run event says beside its data: where the run stands. For `GET /api/runs/{id}`, not for streams."""

    node: str = ""
    usage: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
