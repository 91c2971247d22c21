"""What an answer of the executor, or the end of a proposal, makes of a call, and what calls make of a run (T4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from placet.contracts.errors import RULES, ErrorCode, NextHop, PlacetError
from placet.contracts.events import Completed
from placet.contracts.proposals import FinishReason
from placet.contracts.runs import RunFinish
from services.agent.domain.calls import Call, CallStatus
from services.agent.domain.text import shorten

_NOTE_CHARS = 400
_ANSWER_CHARS = 4000  # what an approver may write in a decision
_MAX_PROBLEMS = 8


def failed(call: Call, error: PlacetError) -> Call:
    """The call after an error. Of a denial only the code stays: its text must not reach a model (T4)."""
    code = error.code
    changed = replace(call, status=CallStatus.ERROR, code=code.value)
    if code is not ErrorCode.INVALID_ARGUMENTS:
        return changed
    listed = error.details.get("errors")
    problems = tuple(
        {"field": shorten(str(item.get("field", "")), 80), "problem": shorten(str(item.get("problem", "")), 160)}
        for item in (listed if isinstance(listed, list) else [])[:_MAX_PROBLEMS]
        if isinstance(item, dict)
    )
    return replace(changed, note=shorten(error.message, _NOTE_CHARS), problems=problems)


def next_hop(call: Call) -> NextHop | None:
    """Where the error table sends the run after this call; None when it did not end in an error."""
    return RULES[ErrorCode(call.code)].next_hop if call.status is CallStatus.ERROR and call.code else None


@dataclass(frozen=True, slots=True)
class Decision:
    """How a proposal ended, as far as a checkpoint may hold it. `receipt` is empty for tools that read."""

    proposal_id: str
    finish_reason: str
    edited: bool
    decided_by: tuple[str, ...]
    ran: dict[str, Any] | None
    receipt: dict[str, Any]
    note: str | None


_STATUS = {
    FinishReason.SUCCESS: CallStatus.OK,
    FinishReason.RESPONDED: CallStatus.RESPONDED,
    FinishReason.REJECTED: CallStatus.REJECTED,
    FinishReason.CANCELLED: CallStatus.CANCELLED,
    FinishReason.EXPIRED: CallStatus.EXPIRED,
    FinishReason.SUPERSEDED: CallStatus.SUPERSEDED,
    FinishReason.DENIED: CallStatus.DENIED,
    FinishReason.FAILED: CallStatus.FAILED,
    FinishReason.VERIFICATION_FAILED: CallStatus.VERIFICATION_FAILED,
    FinishReason.UNKNOWN: CallStatus.UNKNOWN,
}
_WORDS = {FinishReason.REJECTED: "reject", FinishReason.RESPONDED: "respond"}


def decision_of(completed: Completed, *, reads: bool) -> Decision:
    """What may be kept of a proposal's end. The result of a read is content and stays out (`body_of`)."""
    message = completed.outcome.get("message")
    return Decision(
        proposal_id=completed.proposal_id,
        finish_reason=completed.finish_reason.value,
        edited=completed.edited,
        decided_by=completed.decided_by,
        ran=completed.arguments if completed.edited else None,
        receipt={} if reads else body_of(completed),
        note=shorten(str(message), _ANSWER_CHARS) if message and completed.finish_reason in _WORDS else None,
    )


def body_of(completed: Completed) -> dict[str, Any]:
    """The tool's own result, when it ran."""
    result = completed.outcome.get("result")
    return result if isinstance(result, dict) else {}


def decided(call: Call, decision: Decision) -> Call:
    return replace(
        call,
        status=_STATUS[FinishReason(decision.finish_reason)],
        ran=decision.ran,
        receipt=None if call.reads else decision.receipt,
        note=decision.note,
        decided_by=decision.decided_by,
    )


def closed(calls: Iterable[Call], completed: Completed | None) -> list[Call]:
    """The calls of a run that is driven no further: the decision that has come is laid over its call, what still
    waits is withdrawn, and what was only planned was never made."""
    ended: list[Call] = []
    for call in calls:
        if call.status is CallStatus.WAITING and completed and call.proposal_id == completed.proposal_id:
            ended.append(decided(call, decision_of(completed, reads=call.reads)))
        elif call.status is CallStatus.WAITING:
            ended.append(replace(call, status=CallStatus.CANCELLED))
        else:
            ended.append(replace(call, status=CallStatus.DROPPED) if call.status is CallStatus.PLANNED else call)
    return ended


def decision_word(finish_reason: str, *, edited: bool) -> str:
    """`decision` of `run.resumed`: what the person did, or what happened instead of a decision."""
    reason = FinishReason(finish_reason)
    if reason in (FinishReason.EXPIRED, FinishReason.CANCELLED):
        return reason.value
    return _WORDS.get(reason, "edit" if edited else "approve")


_BY_CALL = {
    CallStatus.FAILED: RunFinish.FAILED,
    CallStatus.VERIFICATION_FAILED: RunFinish.FAILED,
    CallStatus.UNKNOWN: RunFinish.FAILED,
    CallStatus.DENIED: RunFinish.REFUSED,
    CallStatus.SUPERSEDED: RunFinish.SUPERSEDED,
    CallStatus.EXPIRED: RunFinish.EXPIRED,
    CallStatus.REJECTED: RunFinish.REJECTED,
    CallStatus.CANCELLED: RunFinish.CANCELLED,
}
_BY_HOP = {
    NextHop.SAFE_REFUSAL: RunFinish.REFUSED,
    NextHop.TELL_USER: RunFinish.SUPERSEDED,
    NextHop.DEGRADE: RunFinish.FAILED,
    NextHop.PARK: RunFinish.FAILED,
    NextHop.FINISH: RunFinish.LIMIT_REACHED,
    NextHop.SAME_NODE: RunFinish.FAILED,
}
_GRAVEST_FIRST = (
    RunFinish.REFUSED,
    RunFinish.FAILED,
    RunFinish.SUPERSEDED,
    RunFinish.LIMIT_REACHED,
    RunFinish.EXPIRED,
    RunFinish.REJECTED,
    RunFinish.CANCELLED,
)


_CORRECTABLE = frozenset({NextHop.SAME_NODE, NextHop.ASK_BACK})


def run_finish(calls: Iterable[Call]) -> RunFinish:
    """How the run ended: the gravest end of a call. A mistake that a later round corrected does not count."""
    known = list(calls)
    ends = {_end_of(call) for call in known if not _corrected(call, known)}
    return next((end for end in _GRAVEST_FIRST if end in ends), RunFinish.SUCCESS)


def _corrected(call: Call, calls: Iterable[Call]) -> bool:
    if next_hop(call) not in _CORRECTABLE:
        return False
    return any(later.step > call.step and later.tool == call.tool and later.succeeded for later in calls)


def _end_of(call: Call) -> RunFinish | None:
    hop = next_hop(call)
    if hop is NextHop.ASK_BACK:
        # Looking for something that is not there is an answer; acting on it is not.
        return None if call.reads else RunFinish.FAILED
    return _BY_HOP.get(hop) if hop else _BY_CALL.get(call.status)
