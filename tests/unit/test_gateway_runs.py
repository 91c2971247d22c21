"""What stored events of a run add up to in `GET /api/runs/{id}`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.execution import Budget
from placet.contracts.runs import RunEvent, RunStatus
from services.gateway.domain.runs import QueuedRun, RunRecord, RunSeen, in_order, view

BEGAN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CARD = {"proposal_id": "prop-1", "tool": "refund_payment", "title": "Refund", "risk": "critical_funds"}


def seen(seq: int, name: str, data: dict[str, Any] | None = None, **changes: Any) -> RunSeen:
    fields: dict[str, Any] = {
        "run_id": "run-1",
        "seq": seq,
        "owner": "alice",
        "conversation_id": "conv-1",
        "data": data or {},
        "node": "plan",
        "started_at": BEGAN.isoformat(),
    }
    return RunSeen(seq + 100, name, BEGAN + timedelta(seconds=seq), RunEvent(**(fields | changes)))


def folded(*events: RunSeen, after_s: float = 60.0) -> Any:
    return view(RunRecord(in_order(events)), BEGAN + timedelta(seconds=after_s))


@pytest.mark.spec("U6")
def test_view_queued_run_says_since_when_and_that_nothing_is_used_yet() -> None:
    shown = view(RunRecord(queued=QueuedRun("run-1", "alice", BEGAN)), BEGAN)
    assert (shown.status, shown.updated_at, shown.answer) == (RunStatus.QUEUED, BEGAN, None)
    meters = ("steps", "tool_calls", "tokens", "cost", "elapsed_s")
    assert shown.budget == {name: {"used": 0, "limit": None} for name in meters}


def test_view_empty_record_has_nothing_to_show() -> None:
    with pytest.raises(ValueError, match="empty record"):
        view(RunRecord(), BEGAN)


@pytest.mark.spec("U2", "U6")
def test_view_running_run_shows_node_attempt_and_budget_used_of_limit() -> None:
    budget = Budget(steps=2, tool_calls=1, tokens=90)
    limits = {"steps": 8, "elapsed_s": 120}
    last = seen(3, "tool-completed", node="compose", attempt=2, budget=budget, limits=limits, active_s=2.5)
    shown = folded(seen(1, "run-started"), last)
    assert (shown.status, shown.node, shown.attempts) == (RunStatus.RUNNING, "compose", 2)
    assert shown.budget["steps"] == {"used": 2, "limit": 8}
    assert shown.budget["tokens"] == {"used": 90, "limit": None}
    assert shown.budget["elapsed_s"] == {"used": 59.5, "limit": 120}
    assert set(shown.budget) == {"steps", "tool_calls", "tokens", "cost", "elapsed_s"}


@pytest.mark.spec("U6", "A3")
def test_view_run_of_two_proposals_waits_on_while_one_is_undecided_and_shows_that_one() -> None:
    first = seen(4, "run-waiting-for-human", CARD, waits_for=("prop-1",))
    second = seen(5, "run-waiting-for-human", {**CARD, "proposal_id": "prop-2"}, waits_for=("prop-1", "prop-2"))
    decided = seen(6, "run-resumed", {"proposal_id": "prop-2", "decision": "approve"}, waits_for=("prop-1",))
    done = seen(7, "tool-completed", {"call_id": "call-2"}, waits_for=("prop-1",))
    shown = folded(first, second, decided, done)
    assert (shown.status, shown.approval) == (RunStatus.WAITING_FOR_HUMAN, {**CARD, "decision": None})
    assert not RunRecord((second, decided, done)).tells_all
    both = seen(8, "run-resumed", {"proposal_id": "prop-1", "decision": "reject"})
    assert folded(first, second, decided, done, both).status is RunStatus.RUNNING


@pytest.mark.spec("U3", "U6")
@pytest.mark.parametrize("name", ["run-waiting-for-human", "run-completed"])
def test_view_run_that_nobody_works_on_uses_no_time_however_long_it_takes(name: str) -> None:
    shown = folded(seen(2, name, CARD, limits={"elapsed_s": 120}, active_s=1.25), after_s=7200)
    assert shown.budget["elapsed_s"] == {"used": 1.25, "limit": 120}


def test_view_events_out_of_order_are_folded_by_sequence() -> None:
    shown = folded(seen(5, "tool-completed", node="compose"), seen(2, "run-routed", node="route"))
    assert shown.node == "compose"


@pytest.mark.spec("U6", "A1")
def test_view_waiting_run_shows_the_card_without_a_decision() -> None:
    shown = folded(seen(1, "run-started"), seen(4, "run-waiting-for-human", CARD))
    assert shown.status is RunStatus.WAITING_FOR_HUMAN
    assert shown.approval == {**CARD, "decision": None}


def test_view_resumed_run_is_running_and_shows_the_decision() -> None:
    resumed = seen(5, "run-resumed", {"proposal_id": "prop-1", "decision": "approve"})
    shown = folded(seen(4, "run-waiting-for-human", CARD), resumed)
    assert shown.status is RunStatus.RUNNING
    assert shown.approval["decision"] == "approve"


def test_view_run_waiting_a_second_time_shows_no_earlier_decision() -> None:
    resumed = seen(5, "run-resumed", {"proposal_id": "prop-1", "decision": "approve"})
    shown = folded(resumed, seen(7, "run-waiting-for-human", {**CARD, "proposal_id": "prop-2"}))
    assert shown.status is RunStatus.WAITING_FOR_HUMAN
    assert shown.approval == {**CARD, "proposal_id": "prop-2", "decision": None}


def test_view_completed_run_shows_answer_and_stops_counting_time() -> None:
    end = {"finish_reason": "success", "answer": "650", "citations": [{"chunk_id": "c1"}]}
    shown = folded(seen(1, "run-started"), seen(9, "run-completed", end, active_s=8.5), after_s=5000)
    assert (shown.status, shown.answer, shown.finish_reason) == (RunStatus.COMPLETED, "650", "success")
    assert shown.citations == [{"chunk_id": "c1"}]
    assert shown.budget["elapsed_s"]["used"] == 8.5


def test_view_completed_run_that_still_waited_is_completed() -> None:
    cancelled = seen(5, "run-completed", {"finish_reason": "cancelled", "answer": "", "citations": []})
    assert folded(seen(4, "run-waiting-for-human", CARD), cancelled).status is RunStatus.COMPLETED


def test_owner_of_record_is_who_asked_for_the_run() -> None:
    assert RunRecord((seen(1, "run-started"),)).owner == "alice"
    assert RunRecord(queued=QueuedRun("run-1", "bob", BEGAN)).owner == "bob"
    assert RunRecord().owner is None
