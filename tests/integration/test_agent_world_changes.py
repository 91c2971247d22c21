"""Waiting runs when the world around them changes: owners who leave, evidence withdrawn, another program."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.audit import AuditRecord
from placet.contracts.proposals import FinishReason
from placet.messaging.append import AuditWriter
from placet.messaging.kv import KeyValue
from placet.testkit.waiting import until
from services.agent.adapters.graph import build
from services.agent.adapters.graph.nodes.execute import Execution
from services.agent.domain.asking import PlannedCall
from services.agent.errors import LeaseLostError
from tests.integration.agent_fakes import TENANT, Passage, proposal_of
from tests.integration.agent_models import Stepwise, scripted, spy_on_model, stub
from tests.integration.agent_rig import AgentRig

REFUND = "Please refund order A1001, 299, it arrived broken."
SECRET = Passage("doc-plan:v1:chunk-01", "CANARY-EVIDENCE cuts jobs.", "CANARY-TITLE")


def refund(order_id: str) -> PlannedCall:
    return PlannedCall("refund_payment", {"order_id": order_id, "amount": 10, "reason": "broken"})


async def verdicts(rig: AgentRig, run_id: str) -> list[tuple[str, str, str]]:
    records = [record for record in await rig.audited(run_id) if record["name"] == "run-reconsidered"]
    return [(record["action"], record["outcome"], record["note"]) for record in records]


async def changed(rig: AgentRig, kind: str, name: str) -> None:
    """What the executor writes when a person or a document has changed."""
    record = AuditRecord(
        service="tool-executor", action="test", outcome="ok", request_id="req-1", resource={"type": kind, "id": name}
    )
    event = "directory-changed" if kind == "person" else "document-changed"
    await AuditWriter(rig.core).write(TENANT, event, f"req-{name}", record)


async def withdrawn(rig: AgentRig, count: int) -> list[str]:
    async def there() -> bool:
        return len(rig.approval.withdrawn) >= count

    await until(there)
    return list(rig.approval.withdrawn)


@pytest.mark.spec("B10", "U4")
async def test_resumed_run_in_an_unchanged_world_goes_on_and_the_record_says_so(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    await agent_rig.complete(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"
    assert await verdicts(agent_rig, run_id) == [("resume", "continue", "unchanged")]


@pytest.mark.spec("R4", "U4", "T11")
async def test_owner_who_left_while_the_run_waited_gets_no_answer_and_what_is_open_is_withdrawn(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, refund("A1001"), refund("A1002"))
    run_id = await agent_rig.ask(REFUND)

    async def both() -> bool:
        return len(await agent_rig.data(run_id, "run-waiting-for-human")) == 2

    await until(both)
    await agent_rig.released(run_id)
    agent_rig.executor.left.add("alice")
    await agent_rig.complete(run_id, call=0)
    done = await agent_rig.finished(run_id)
    assert done == {
        "finish_reason": "refused",
        "answer": "This request is not permitted, so I cannot carry it out.",
        "citations": [],
    }
    assert proposal_of(agent_rig.executor.of(run_id)[1]) in agent_rig.approval.withdrawn
    assert await verdicts(agent_rig, run_id) == [("resume", "abandon", "owner_inactive")]


@pytest.mark.spec("R4")
async def test_proposals_of_a_person_who_leaves_are_withdrawn_at_once_and_nobody_else_s(agent_rig: AgentRig) -> None:
    run_id = await agent_rig.parked()
    other = await agent_rig.parked(actor="bob")
    agent_rig.executor.left.add("alice")
    await changed(agent_rig, "person", "alice")
    (command,), (others,) = agent_rig.executor.of(run_id), agent_rig.executor.of(other)
    await until(lambda: proposal_of(command) in agent_rig.approval.withdrawn)

    async def recorded() -> bool:
        return await verdicts(agent_rig, run_id) == [("rights", "withdrawn", "owner_inactive")]

    await until(recorded)
    assert await verdicts(agent_rig, other) == []
    assert proposal_of(others) not in agent_rig.approval.withdrawn


@pytest.mark.spec("U4", "R6")
async def test_proposal_that_rests_on_a_withdrawn_document_is_withdrawn_and_the_run_forgets_it(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await rests_on_secret(agent_rig, monkeypatch)
    (command,) = [call for call in agent_rig.executor.of(run_id) if call.tool == "refund_payment"]
    assert command.lineage == (SECRET.chunk_id,)
    agent_rig.executor.passages.clear()
    await changed(agent_rig, "document", "doc-plan")
    assert await withdrawn(agent_rig, 1) == [proposal_of(command)]
    await agent_rig.complete(run_id, FinishReason.CANCELLED)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "cancelled"
    assert "CANARY" not in str([event.envelope.data for event in await agent_rig.events(run_id)])
    assert await verdicts(agent_rig, run_id) == [
        ("rights", "withdrawn", "evidence_gone"), ("resume", "replan", "evidence_gone")
    ]  # fmt: skip


async def rests_on_secret(rig: AgentRig, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that has read the secret and waits with a refund that rests on it."""
    rig.executor.passages[:] = [SECRET]
    search = PlannedCall("search_knowledge", {"query": "plan", "k": 3})
    stub(monkeypatch, Stepwise((search,), (refund("A1001"),)))
    return await rig.parked()


@pytest.mark.spec("U4", "A6")
async def test_message_about_a_document_that_is_still_readable_withdraws_nothing(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await rests_on_secret(agent_rig, monkeypatch)
    asked = len(agent_rig.executor.resolved)
    await changed(agent_rig, "document", "doc-plan")
    await changed(agent_rig, "person", "alice")

    async def looked() -> bool:
        return len(agent_rig.executor.resolved) >= asked + 2

    await until(looked)
    assert agent_rig.approval.withdrawn == []
    await agent_rig.complete(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"


@pytest.mark.spec("B5", "U4")
async def test_plan_made_with_another_toolset_is_dropped_and_made_anew(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies between planning and asking; when another one goes on, the tool has another version."""
    ask, died = Execution._one, list[str]()

    async def dies_once(self: Execution, state: Any, drive: Any, *call: Any) -> Any:
        if not died:
            died.append(drive.run.run_id)
            agent_rig.executor.tool_version = "2"
            raise LeaseLostError(drive.run.run_id)
        return await ask(self, state, drive, *call)

    monkeypatch.setattr(Execution, "_one", dies_once)
    asked = spy_on_model(monkeypatch)
    run_id = await agent_rig.parked()
    assert died == [run_id]
    assert len(asked) == 2, "the model was to plan once more"
    (command,) = agent_rig.executor.of(run_id)
    assert await verdicts(agent_rig, run_id) == [("resume", "replan", "tools_changed")]
    await agent_rig.complete(run_id)
    assert (await agent_rig.finished(run_id))["finish_reason"] == "success"
    assert command.args["order_id"] == "A1001"


@pytest.mark.spec("B5", "U2")
async def test_run_parked_by_another_program_tells_the_decision_and_goes_no_further(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await agent_rig.parked()
    await agent_rig.stop_agent()
    monkeypatch.setattr(build, "SHAPE", build.SHAPE + 1)
    await agent_rig.start_agent()
    await agent_rig.complete(run_id)
    done = await agent_rig.finished(run_id)
    assert done["finish_reason"] == "success"
    assert "299 CNY was refunded for order A1001, refund R-1" in done["answer"]
    assert "has been updated meanwhile" in done["answer"]
    assert await verdicts(agent_rig, run_id) == [("resume", "abandon", "graph_changed")]
    monkeypatch.undo()
    await agent_rig.stop_agent()
    await agent_rig.start_agent()


@pytest.mark.spec("U4")
async def test_what_is_kept_of_a_waiting_run_is_ids_and_goes_with_its_end(
    agent_rig: AgentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await rests_on_secret(agent_rig, monkeypatch)
    control = KeyValue(await agent_rig.nats.bus("agent"), "RUN_CONTROL")
    entry = await control.get(f"{TENANT}.{run_id}.parked")
    assert entry is not None
    assert b"CANARY" not in entry.value
    assert SECRET.chunk_id.encode() in entry.value
    await agent_rig.complete(run_id)
    await agent_rig.finished(run_id)

    async def gone() -> bool:
        return not await control.scan(TENANT, run_id, "*") and await control.get(f"{TENANT}.{run_id}") is None

    await until(gone)
