"""Calls that tests of the pure rules of the agent talk about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placet.contracts.events import Completed
from placet.contracts.proposals import FinishReason
from placet.contracts.runs import RunEvent
from placet.testkit.builders import origin
from services.agent.domain.calls import Call
from services.agent.domain.outcomes import decided, decision_of
from services.agent.domain.run import Recorded, RunRecord, advance

REFUND = Call(
    call_id="call-1",
    step=1,
    tool="refund_payment",
    args={"order_id": "A1001", "amount": 299, "reason": "broken"},
    title="Refund a payment",
    risk="critical_funds",
    reads=False,
)


SEARCH = replace(REFUND, call_id="call-0", tool="search_knowledge", args={"query": "x"}, reads=True)


def completed_event(reason: FinishReason, **changes: Any) -> Completed:
    fields: dict[str, Any] = {
        "proposal_id": "prop-1",
        "finish_reason": reason,
        "origin": origin(),
        "tool": "refund_payment",
        "arguments": REFUND.args,
        "decided_by": ("dave",),
        "outcome": {"finish_reason": reason.value},
    }
    return Completed(**(fields | changes))


def ended(reason: FinishReason, **changes: Any) -> Call:
    event = completed_event(reason, **changes)
    return decided(REFUND, decision_of(event, reads=False))


def event(record: RunRecord, name: str, data: dict[str, Any], **fields: Any) -> RunRecord:
    made = RunEvent(run_id="run-1", seq=record.seq + 1, owner="alice", conversation_id="c", data=data, **fields)
    return advance(record, Recorded(record.last_seq + 3, name, made))
