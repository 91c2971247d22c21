"""Runs that wait for people, resumed by signed events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.proposals import FinishReason
from placet.messaging.append import Appender, NewEvent
from placet.messaging.reading import EventReader
from placet.testkit.builders import Keys
from placet.testkit.waiting import until
from services.agent.domain.asking import PlannedCall
from tests.integration.agent_fakes import TENANT, completed, note, proposal_of, reply
from tests.integration.agent_models import scripted
from tests.integration.agent_rig import AgentRig

REFUND = "Please refund order A1001, 299, it arrived broken."


def refund(order_id: str) -> PlannedCall:
    return PlannedCall("refund_payment", {"order_id": order_id, "amount": 10, "reason": "broken"})


@pytest.mark.spec("U1", "U5", "A10")
async def test_refund_waits_for_a_person_and_after_approval_says_what_was_done(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    (card,) = await agent_rig.data(run_id, "run-waiting-for-human")
    assert set(card) == {"proposal_id", "tool", "title", "risk", "expires_at"}
    assert "299" not in str(card)
    await agent_rig.complete(run_id)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "success"
    assert done["answer"] == "Done: 299 CNY was refunded for order A1001, refund R-1, approved by dave."
    assert [name for name in await agent_rig.names(run_id) if name != "message-delta"] == [
        "run-started", "run-routed", "tool-proposed", "run-waiting-for-human",
        "run-resumed", "tool-completed", "run-completed",
    ]  # fmt: skip
    assert (await agent_rig.data(run_id, "run-resumed"))[0] == {
        "proposal_id": card["proposal_id"],
        "decision": "approve",
    }
    assert len(agent_rig.executor.of(run_id)) == 1


@pytest.mark.spec("A3", "A7", "A8")
@pytest.mark.parametrize(
    ("reason", "finish", "said"),
    [
        (FinishReason.REJECTED, "rejected", "rejected by dave; nothing was executed"),
        (FinishReason.EXPIRED, "expired", "has expired; nothing was executed"),
        (FinishReason.SUPERSEDED, "superseded", "has changed since"),
        (FinishReason.FAILED, "failed", "did not take effect"),
        (FinishReason.UNKNOWN, "failed", "may or may not have taken effect"),
        (FinishReason.DENIED, "refused", "denied before it ran"),
    ],
)
async def test_proposal_that_ends_otherwise_ends_the_run_so_and_is_not_asked_again(
    agent_rig: AgentRig, reason: FinishReason, finish: str, said: str
) -> None:
    run_id = await agent_rig.parked()
    await agent_rig.complete(run_id, reason)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == finish
    assert said in done["answer"]
    assert len(agent_rig.executor.of(run_id)) == 1


@pytest.mark.spec("A3")
async def test_edited_proposal_is_told_as_it_really_ran(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    result = {"refund_id": "R-2", "order_id": "A1001", "amount": 200, "currency": "CNY"}
    ran = {"order_id": "A1001", "amount": 200, "reason": "it arrived broken"}
    await agent_rig.complete(run_id, edited=True, arguments=ran, outcome={"finish_reason": "success", "result": result})
    done = await agent_rig.finished(run_id)
    assert "200 CNY was refunded" in done["answer"]
    assert "amount 299 → 200" in done["answer"]
    assert (await agent_rig.data(run_id, "run-resumed"))[0]["decision"] == "edit"


@pytest.mark.spec("A3")
async def test_response_of_a_person_is_the_answer(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked("请给订单A1001退款299元，商品到货时已损坏。")
    outcome = {"finish_reason": "responded", "message": "请改发优惠券。"}
    await agent_rig.complete(run_id, FinishReason.RESPONDED, outcome=outcome)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "success"
    assert "请改发优惠券。" in done["answer"]


@pytest.mark.spec("C4", "L2")
async def test_completed_event_with_a_wrong_signature_changes_nothing_and_is_alarmed(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    forger = Appender(agent_rig.core, "approval", "APPROVALS", Keys().approval_signer())
    (command,) = agent_rig.executor.of(run_id)
    event = completed(command, run_id, FinishReason.SUCCESS)
    appended = await forger.append(TENANT, NewEvent("completed", event.proposal_id, event), 0)
    alarm = subjects.event(TENANT, "audit", "security-event", "any").rsplit(".", 1)[0] + ".*"

    async def alarmed() -> bool:
        page = await EventReader(agent_rig.core, "AUDIT").page(alarm, after=0, limit=500)
        return any(event.proposal_id in str(record.envelope.data.get("note")) for record in page)

    await until(alarmed)
    assert "run-resumed" not in await agent_rig.names(run_id)
    genuine = Appender(agent_rig.core, "approval", "APPROVALS", agent_rig.keys.approval_signer())
    await genuine.append(TENANT, NewEvent("completed", event.proposal_id, event), appended.seq)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"


async def test_completed_event_for_another_person_s_proposal_does_not_resume_the_run(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    (command,) = agent_rig.executor.of(run_id)
    event = completed(command, run_id, FinishReason.SUCCESS)
    stranger = event.model_copy(update={"origin": event.origin.model_copy(update={"requester": "bob"})})
    signed = Appender(agent_rig.core, "approval", "APPROVALS", agent_rig.keys.approval_signer())
    await signed.append(TENANT, NewEvent("completed", "prop-of-bob", stranger), 0)
    await asyncio.sleep(0.5)
    assert "run-resumed" not in await agent_rig.names(run_id)


async def test_completed_event_of_a_call_over_http_is_ignored(agent_rig: AgentRig) -> None:
    event = completed(
        ExecuteTool(grant="g", call_id="call-http", tool="refund_payment", args={}, route="http"),
        "run-none",
        FinishReason.SUCCESS,
    )
    no_run = event.model_copy(update={"origin": event.origin.model_copy(update={"run_id": None})})
    signed = Appender(agent_rig.core, "approval", "APPROVALS", agent_rig.keys.approval_signer())
    await signed.append(TENANT, NewEvent("completed", "prop-http", no_run), 0)
    run_id = await agent_rig.parked()
    await agent_rig.complete(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"


@pytest.mark.spec("A3", "U1")
async def test_two_proposals_of_one_step_are_decided_apart_in_any_order(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, refund("A1001"), refund("A1002"))
    run_id = await agent_rig.ask(REFUND)

    async def both() -> bool:
        return len(await agent_rig.data(run_id, "run-waiting-for-human")) == 2

    await until(both)
    await agent_rig.released(run_id)
    result = {"refund_id": "R-7", "order_id": "A1002", "amount": 10, "currency": "CNY"}
    await agent_rig.complete(run_id, call=1, outcome={"finish_reason": "success", "result": result})
    await agent_rig.reach(run_id, "run-resumed")
    await asyncio.sleep(0.3)
    assert "run-completed" not in await agent_rig.names(run_id)
    await agent_rig.complete(run_id, FinishReason.REJECTED, call=0)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "rejected"
    assert "refund R-7" in done["answer"]
    assert "order A1001 was rejected" in done["answer"]
    first, second = (proposal_of(command) for command in agent_rig.executor.of(run_id))
    told = [(one.name, one.envelope.data) for one in await agent_rig.events(run_id)]
    waits = {(name, data["data"].get("proposal_id")): tuple(data["waits_for"]) for name, data in told}
    assert waits["run-waiting-for-human", first] == (first,)
    assert waits["run-waiting-for-human", second] == (first, second)
    assert waits["run-resumed", second] == (first,)
    assert waits["run-resumed", first] == waits["run-completed", None] == ()


@pytest.mark.spec("A10")
async def test_decision_that_comes_before_the_run_has_parked_is_applied_afterwards(agent_rig: AgentRig) -> None:
    async def decided_at_once(command: ExecuteTool) -> ToolReply:
        await agent_rig.complete(run_id)
        await asyncio.sleep(0.5)
        return reply(command, None, proposal=note(command))

    agent_rig.executor.answers["refund_payment"] = decided_at_once
    run_id = "run-decided-early"
    await agent_rig.ask(REFUND, run_id=run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"


@pytest.mark.spec("U2", "A10")
@pytest.mark.parametrize("name", ["run-resumed", "tool-completed", "run-completed"])
async def test_decision_whose_drive_failed_half_way_is_taken_up_again(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from services.agent.adapters.run_log import StreamRunLog

    run_id = await agent_rig.parked()
    append, failures = StreamRunLog.append, list[str]()

    async def fail_once(self: StreamRunLog, event: str, data: dict[str, Any], *more: Any) -> bool:
        if event == name and not failures:
            failures.append(event)
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "the bus is away")
        return await append(self, event, data, *more)

    monkeypatch.setattr(StreamRunLog, "append", fail_once)
    await agent_rig.complete(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"
    assert failures == [name]
    assert (await agent_rig.names(run_id)).count("run-resumed") == 1
    assert len(agent_rig.executor.of(run_id)) == 1
