"""Waiting for people: one node per waiting call, one interrupt per node, and nothing before it that has an effect."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict

from langgraph.types import interrupt

from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.state import RunState, WaitingState
from services.agent.domain.calls import Call
from services.agent.domain.outcomes import Decision, decided, decision_word


class Waiting(TypedDict):
    """What an interrupt holds: ids, and whether the tool reads (its result is then not kept)."""

    proposal_id: str
    call_id: str
    reads: bool


async def await_decision(state: WaitingState, drive: DriveContext) -> RunState:
    call = Call.from_json(state["call"])
    question = Waiting(proposal_id=str(call.proposal_id), call_id=call.call_id, reads=call.reads)
    # Checked against this type: a bad answer is refused and leaves the question open.
    decision = interrupt(question, response_schema=Decision)
    done = decided(call, decision)
    word = decision_word(decision.finish_reason, edited=decision.edited)
    await drive.log.append("run-resumed", {"proposal_id": decision.proposal_id, "decision": word})
    await drive.log.append("tool-completed", {"call_id": call.call_id, "tool": call.tool, "status": done.status.value})
    return {"calls": [done.as_json()]}


def answer_of(decision: Decision) -> dict[str, Any]:
    """The decision as JSON: what resumes the interrupt, and what of it a checkpoint holds."""
    return asdict(decision) | {"decided_by": list(decision.decided_by)}
