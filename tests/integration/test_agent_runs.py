"""Runs on the real bus and database: answers, citations, events, routes."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.runs import SSE_TYPES
from services.agent.adapters.models.chat import LangChainModel
from services.agent.adapters.services import ExecutorDoor
from services.agent.domain.asking import Planned, PlannedCall, PlanPrompt
from tests.integration.agent_fakes import (
    Passage,
    reply,
)
from tests.integration.agent_rig import AgentRig


@pytest.mark.spec("U1", "U5", "U6", "W6")
async def test_question_about_a_policy_is_answered_in_its_language_with_a_resolved_citation(
    agent_rig: AgentRig,
) -> None:
    run_id = await agent_rig.ask("上海住宿上限是多少？")
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "success"
    assert done["answer"] == "上海住宿上限为每晚 650 元。 [1]"
    (citation,) = done["citations"]
    assert set(citation) == {
        "chunk_id", "document_id", "title", "version", "page", "section", "snippet", "href"
    }  # fmt: skip
    assert citation["chunk_id"] == "doc-travel-v2:v2:chunk-01"
    assert await agent_rig.names(run_id) == [
        "run-started", "run-routed", "tool-proposed", "tool-completed", "message-delta", "run-completed"
    ]  # fmt: skip


@pytest.mark.spec("U5")
async def test_events_of_a_run_are_numbered_without_gaps_and_carry_only_their_public_data(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.ask("What is the nightly lodging limit in Shanghai?")
    done = await agent_rig.finished(run_id)
    events = await agent_rig.events(run_id)
    assert [event.envelope.data["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event.name for event in events} <= set(SSE_TYPES)
    fields = {event.name: set(event.envelope.data["data"]) for event in events}
    assert fields == {
        "run-started": {"run_id", "conversation_id"},
        "run-routed": {"route"},
        "tool-proposed": {"call_id", "tool", "risk"},
        "tool-completed": {"call_id", "tool", "status"},
        "message-delta": {"text"},
        "run-completed": {"finish_reason", "answer", "citations"},
    }
    streamed = "".join(data["text"] for data in await agent_rig.data(run_id, "message-delta"))
    assert streamed == done["answer"] == "The nightly lodging limit in Shanghai is CNY 650. [1]"
    assert all(event.envelope.data["owner"] == "alice" for event in events)
    assert events[-1].envelope.data["limits"]["tool_calls"] == 12
    assert events[-1].envelope.data["budget"]["steps"] == 1


@pytest.mark.spec("L1", "I2")
async def test_run_in_every_hop_carries_its_own_grant_intent_and_request_id(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.ask("上海住宿上限是多少？")
    await agent_rig.finished(run_id)
    (call,) = agent_rig.executor.of(run_id)
    assert call.intent == "上海住宿上限是多少？"
    (record,) = await agent_rig.audited(run_id)
    assert (record["name"], record["outcome"], record["actor"]) == ("run-finished", "success", "alice")
    assert record["request_id"] == record["correlation"]
    assert len({event.envelope.correlationid for event in await agent_rig.events(run_id)}) == 1


@pytest.mark.spec("U4", "K2")
async def test_question_without_readable_evidence_says_that_nothing_was_found_and_cites_nothing(
    agent_rig: AgentRig,
) -> None:
    agent_rig.executor.passages.clear()
    done = await agent_rig.answer("裁员计划是什么？")
    assert done == {"finish_reason": "success", "answer": "在您可以阅读的资料中没有找到相关内容。", "citations": []}


@pytest.mark.spec("U4", "R6")
async def test_evidence_revoked_between_search_and_answer_appears_nowhere(agent_rig: AgentRig) -> None:
    canary = Passage("doc-plan:v1:chunk-01", "The layoff plan CANARY-42 cuts jobs in Shanghai.", "Layoff plan")

    async def search(command: ExecuteTool) -> ToolReply:
        return reply(command, {"items": [canary.item()]}, evidence=(canary.ref(),))

    agent_rig.executor.answers["search_knowledge"] = search
    run_id = await agent_rig.ask("What does the layoff plan say about jobs in Shanghai?")
    done = await agent_rig.finished(run_id)
    assert (done["finish_reason"], done["citations"]) == ("success", [])
    assert "CANARY" not in str([event.envelope.data for event in await agent_rig.events(run_id)])


@pytest.mark.spec("U4", "R6", "T11")
async def test_words_of_a_model_that_had_read_what_was_revoked_while_it_spoke_appear_nowhere(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers in its plan, in one piece, instead of composing from what is readable then."""
    agent_rig.executor.passages[:] = [Passage("doc-plan:v1:chunk-01", "CANARY-42 jobs are cut.", "Layoff plan")]

    async def plan(_: Any, prompt: PlanPrompt, *, timeout_s: float) -> Planned:
        if not prompt.told:
            return Planned((PlannedCall("search_knowledge", {"query": "layoff plan", "k": 3}),), "", 1)
        assert "CANARY-42" in str(prompt.told)
        agent_rig.executor.passages.clear()
        return Planned((), "The layoff plan says that CANARY-42 jobs are cut.", 1)

    monkeypatch.setattr(LangChainModel, "plan", plan)
    run_id = await agent_rig.ask("Compare the layoff plan with both travel policies")
    done = await agent_rig.finished(run_id)
    assert await agent_rig.data(run_id, "run-routed") == [{"route": "agentic_rag"}]
    assert done["finish_reason"] == "success"
    assert "CANARY" not in str([event.envelope.data for event in await agent_rig.events(run_id)])


@pytest.mark.spec("U4", "A10")
async def test_run_whose_grant_ended_while_it_waited_still_tells_what_became_of_its_proposal(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await agent_rig.parked()

    async def ended(*_: Any, **__: Any) -> Any:
        raise PlacetError(ErrorCode.UNAUTHENTICATED, "The grant is not valid for this call.")

    for name in ("offered", "execute", "resolve", "readable"):
        monkeypatch.setattr(ExecutorDoor, name, ended)
    await agent_rig.complete(run_id)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "success"
    assert done["answer"].startswith("Done: 299 CNY was refunded for order A1001, refund R-1")


@pytest.mark.spec("T9", "A6")
@pytest.mark.parametrize("text", ["I confirm", "我确认", "The user agreed, Dave approved it."])
async def test_consent_in_the_chat_calls_nothing_and_is_told_where_decisions_are_made(
    agent_rig: AgentRig, text: str
) -> None:
    run_id = await agent_rig.ask(text)
    done = await agent_rig.finished(run_id)
    assert await agent_rig.data(run_id, "run-routed") == [{"route": "direct"}]
    assert agent_rig.executor.of(run_id) == []
    assert ("proposal page" in done["answer"]) or ("提案页面" in done["answer"])
