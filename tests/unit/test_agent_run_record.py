"""The fold of a run: what its own events say of it (U2)."""

from __future__ import annotations

import pytest

from placet.contracts.execution import Budget
from services.agent.domain.run import at_least, fold
from tests.unit.agent_values import event


@pytest.mark.spec("U2", "U5")
def test_fold_of_a_run_that_waited_knows_what_is_there_already() -> None:
    record = event(fold([]), "run-started", {"run_id": "run-1"}, started_at="t0", epoch=4)
    record = event(record, "run-routed", {"route": "business_action"})
    record = event(record, "tool-proposed", {"call_id": "call-1", "tool": "refund_payment"})
    record = event(record, "run-waiting-for-human", {"proposal_id": "prop-1", "tool": "refund_payment"})
    assert record.waiting == {"prop-1": "call-1"}
    assert record.proposal_of("call-1") == "prop-1"
    assert record.has("run-waiting-for-human", {"proposal_id": "prop-1"})
    assert not record.has("run-resumed", {"proposal_id": "prop-1"})
    record = event(record, "run-resumed", {"proposal_id": "prop-1"})
    record = event(record, "tool-completed", {"call_id": "call-1"})
    assert record.waiting == {}
    record = event(event(record, "message-delta", {"text": "Do"}), "message-delta", {"text": "ne"})
    assert record.streamed == "Done"
    record = event(record, "run-completed", {"finish_reason": "success"})
    assert record.completed
    assert (record.seq, record.last_seq, record.started_at, record.epoch) == (9, 27, "t0", 4)


@pytest.mark.spec("U2", "U3")
def test_fold_of_a_run_ended_by_a_worker_that_did_nothing_keeps_what_was_used_and_where_it_stood() -> None:
    used = Budget(steps=2, tool_calls=1, tokens=90, cost=0.5)
    record = event(fold([]), "run-started", {"run_id": "run-1"}, node="execute", budget=used, active_s=3.5)
    record = event(record, "run-completed", {"finish_reason": "cancelled"})
    assert (record.node, record.budget, record.active_s) == ("execute", used, 3.5)
    assert at_least(Budget(steps=3, tokens=10), used) == Budget(steps=3, tool_calls=1, tokens=90, cost=0.5)
