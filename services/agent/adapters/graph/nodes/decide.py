"""Waiting for people: one node per waiting call, one interrupt per node, and nothing before it that has an effect."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.types import interrupt

from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.state import RunState, WaitingState
from services.agent.domain.calls import Call
from services.agent.domain.outcomes import Decision, decided, decision_word


class DecisionAnswer(TypedDict):
    """What resumes an interrupt. Checked by LangGraph against this type: a bad answer leaves the question open."""

    proposal_id: str
    finish_reason: str
    edited: bool
    decided_by: list[str]
    ran: dict[str, Any] | None
    receipt: dict[str, Any]
    note: str | None


class Waiting(TypedDict):
    """What an interrupt holds: ids, and whether the tool reads (its result is then not kept)."""

    proposal_id: str
    call_id: str
    reads: bool


async def await_decision(state: WaitingState, drive: DriveContext) -> RunState:
    call = Call.from_json(state["call"])
    question = Waiting(proposal_id=str(call.proposal_id), call_id=call.call_id, reads=call.reads)
    answer = interrupt(question, response_schema=DecisionAnswer)
    decision = _decision(answer)
    done = decided(call, decision)
    word = decision_word(decision.finish_reason, edited=decision.edited)
    await drive.log.append("run-resumed", {"proposal_id": decision.proposal_id, "decision": word})
    await drive.log.append("tool-completed", {"call_id": call.call_id, "tool": call.tool, "status": done.status.value})
    return {"calls": [done.as_json()]}


def answer_of(decision: Decision) -> DecisionAnswer:
    return DecisionAnswer(
        proposal_id=decision.proposal_id,
        finish_reason=decision.finish_reason,
        edited=decision.edited,
        decided_by=list(decision.decided_by),
        ran=decision.ran,
        receipt=decision.receipt,
        note=decision.note,
    )


def _decision(answer: DecisionAnswer) -> Decision:
    return Decision(
        proposal_id=answer["proposal_id"],
        finish_reason=answer["finish_reason"],
        edited=answer["edited"],
        decided_by=tuple(answer["decided_by"]),
        ran=answer["ran"],
        receipt=answer["receipt"],
        note=answer["note"],
    )
