"""Several calls planned in one step: each is its own, whatever becomes of the others (U1, A3, T2, T10)."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.proposals import FinishReason
from placet.testkit.waiting import until
from services.agent.domain.asking import PlannedCall
from tests.integration.agent_fakes import proposal_of
from tests.integration.agent_models import Stepwise, scripted, spy_on_model, stub
from tests.integration.agent_rig import AgentRig

REFUND = "Please refund order A1001, 299, it arrived broken."


def refund(order_id: str) -> PlannedCall:
    return PlannedCall("refund_payment", {"order_id": order_id, "amount": 10, "reason": "broken"})


async def waiting(rig: AgentRig, run_id: str, count: int) -> None:
    async def there() -> bool:
        return len(await rig.data(run_id, "run-waiting-for-human")) == count

    await until(there)
    await rig.released(run_id)


@pytest.mark.spec("T2", "T4", "U1")
async def test_unknown_tool_in_a_batch_is_refused_and_changes_nothing_for_the_others(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deny(command: ExecuteTool) -> ToolReply:
        raise PlacetError(ErrorCode.TOOL_NOT_ALLOWED, "SECRET-RULE")

    agent_rig.executor.answers["launch_rocket"] = deny
    scripted(monkeypatch, refund("A1001"), PlannedCall("launch_rocket", {"where": "moon"}), refund("A1002"))
    asked = spy_on_model(monkeypatch)
    run_id = await agent_rig.ask(REFUND)
    await waiting(agent_rig, run_id, 2)
    assert [call.tool for call in agent_rig.executor.of(run_id)] == [
        "refund_payment",
        "launch_rocket",
        "refund_payment",
    ]
    result = {"refund_id": "R-7", "order_id": "A1002", "amount": 10, "currency": "CNY"}
    await agent_rig.complete(run_id, call=1, outcome={"finish_reason": "success", "result": result})
    await agent_rig.complete(run_id, FinishReason.REJECTED, call=0)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "refused"
    assert "refund R-7" in done["answer"]
    assert "order A1001 was rejected" in done["answer"]
    kinds = [record["action"] for record in await agent_rig.audited(run_id) if record["name"] == "security-event"]
    assert kinds == ["tool_call_denied"]
    assert "SECRET-RULE" not in str(asked) + str([event.envelope.data for event in await agent_rig.events(run_id)])


@pytest.mark.spec("A3", "W4", "W5")
@pytest.mark.parametrize(
    ("reason", "changes", "told"),
    [
        (
            FinishReason.SUCCESS,
            {"edited": True, "arguments": {"order_id": "A1001", "amount": 4, "reason": "broken"}},
            ['"status": "ok"', '"ran_instead"', '"amount": 4'],
        ),
        (
            FinishReason.REJECTED,
            {"outcome": {"finish_reason": "rejected", "message": "Not without the photos."}},
            ['"status": "rejected"', "Not without the photos."],
        ),
        (
            FinishReason.RESPONDED,
            {"outcome": {"finish_reason": "responded", "message": "Send a voucher instead."}},
            ['"status": "responded"', "Send a voucher instead."],
        ),
    ],
    ids=["edit", "reject", "respond"],
)
async def test_decision_reaches_the_model_as_a_tool_result_that_says_what_happened(
    agent_rig: AgentRig,
    monkeypatch: pytest.MonkeyPatch,
    reason: FinishReason,
    changes: dict[str, Any],
    told: list[str],
) -> None:
    """The rows W4 and W5 have no text of their own; they are read as: the model learns what really ran, and why not."""
    scripted(monkeypatch, refund("A1001"))
    asked = spy_on_model_plans(monkeypatch)
    run_id = await agent_rig.parked()
    await agent_rig.complete(run_id, reason, **changes)
    await agent_rig.finished(run_id)
    assert len(agent_rig.executor.of(run_id)) == 1
    (answer,) = [call.answer for call in asked[-1].told]
    for part in told:
        assert part in answer


def spy_on_model_plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the model is asked to plan with, from now on, whoever plans."""
    from services.agent.adapters.models.chat import LangChainModel

    plan, asked = LangChainModel.plan, list[Any]()

    async def kept(self: Any, prompt: Any, *, timeout_s: float) -> Any:
        asked.append(prompt)
        return await plan(self, prompt, timeout_s=timeout_s)

    monkeypatch.setattr(LangChainModel, "plan", kept)
    return asked


@pytest.mark.spec("W8", "U3")
async def test_same_call_twice_in_one_step_and_again_in_the_next_is_one_proposal(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(monkeypatch, Stepwise((refund("A1001"), refund("A1001")), (refund("A1001"),)))
    run_id = await agent_rig.parked()
    (command,) = agent_rig.executor.of(run_id)
    await agent_rig.complete(run_id)
    done = await agent_rig.finished(run_id)
    assert len(agent_rig.executor.of(run_id)) == 1
    assert done["answer"].count("refund R-1") == 1
    (card,) = await agent_rig.data(run_id, "run-waiting-for-human")
    assert card["proposal_id"] == proposal_of(command)


@pytest.mark.spec("T10", "M1", "K5")
@pytest.mark.parametrize(
    "claim",
    [
        "I remember the limit is 800. What is the nightly lodging limit in Shanghai?",
        "The limit was raised to 800 yesterday, so what is the nightly lodging limit in Shanghai?",
    ],
)
async def test_claimed_800_never_overrides_the_documents_650_nor_does_it_in_the_next_question(
    agent_rig: AgentRig, claim: str
) -> None:
    conversation = f"conv-claim-{len(claim)}"
    for question in (claim, "And in Shanghai?"):
        run_id = await agent_rig.ask(question, conversation=conversation)
        done = await agent_rig.finished(run_id)
        assert "800" not in done["answer"]
        assert "650" in done["answer"]

        async def remembered() -> bool:
            try:
                return bool(await agent_rig.summary(conversation))
            except PlacetError:
                return False

        await until(remembered)
    assert "800" not in agent_rig.executor.of(run_id)[0].args["query"]
