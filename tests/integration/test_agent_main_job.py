"""The agent with the real executor, approval service, policies, documents and orders: the main job, on one bus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.contracts import subjects
from placet.contracts.runs import StartRun
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader, Stored
from placet.observability.context import RequestContext, new_id
from placet.testkit.waiting import until
from services.agent.app import build as build_agent
from services.agent.settings import Settings as AgentSettings
from services.memory.app import build as build_memory
from services.memory.settings import Settings as MemorySettings
from tests.integration.governance_rig import GovernanceRig

ORDER = "A1010"
CANARY = "CANARY-7f3a-LAYOFF"


class House:
    """People's questions on the governance rig, as the gateway would queue them."""

    def __init__(self, rig: GovernanceRig, bus: Bus) -> None:
        self.rig = rig
        self._bus = bus
        self._reader = EventReader(bus, "RUNS")

    async def ask(
        self, person: str, question: str, *, until_event: str = "run-completed"
    ) -> tuple[str, dict[str, Any]]:
        run_id = new_id("run")
        command = StartRun(
            grant=self.rig.grant(person, run_id=run_id),
            run_id=run_id,
            conversation_id=new_id("conv"),
            question=question,
        )
        payload = wire.encode(
            message_id=run_id,
            source="placet/gateway",
            type_="placet.agent.start-run.v1",
            subject=run_id,
            context=RequestContext(request_id=f"req-{run_id}", tenant="acme", actor=person),
            tenant="acme",
            data=command,
        )
        await self._bus.js.publish(subjects.command("acme", "agent", "start-run", run_id), payload)
        return run_id, await self.reach(run_id, until_event)

    async def events(self, run_id: str) -> list[Stored]:
        return await self._reader.entity("acme", "agent", run_id)

    async def reach(self, run_id: str, name: str) -> dict[str, Any]:
        async def there() -> bool:
            return any(event.name == name for event in await self.events(run_id))

        await until(there, what=f"{name} of {run_id}")
        return next(e.envelope.data["data"] for e in await self.events(run_id) if e.name == name)


@pytest.fixture(scope="module")
async def house(governance: GovernanceRig) -> AsyncIterator[House]:
    nats, keys = governance.nats, governance.keys
    agent = await build_agent(
        AgentSettings(
            nats_url=nats.url,
            nats_seed_file=nats.seed_file("agent"),
            database_url=governance.postgres.url("placet_agent"),
            grant_public_file=keys.public("grant"),
            approval_public_file=keys.public("approval"),
        )
    )
    memory = await build_memory(
        MemorySettings(
            nats_url=nats.url, nats_seed_file=nats.seed_file("memory"), grant_public_file=keys.public("grant")
        )
    )
    await agent.start()
    await memory.start()
    yield House(governance, await nats.bus("gateway"))
    await agent.stop()
    await memory.stop()


@pytest.mark.spec("U6", "K2", "W6")
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("上海住宿上限是多少？", "上海住宿上限为每晚 650 元。 [1]"),
        ("What is the nightly lodging limit in Shanghai?", "The nightly lodging limit in Shanghai is CNY 650. [1]"),
    ],
)
async def test_lodging_limit_is_answered_from_the_published_policy(house: House, question: str, answer: str) -> None:
    _, done = await house.ask("alice", question)
    assert (done["finish_reason"], done["answer"]) == ("success", answer)
    assert [citation["document_id"] for citation in done["citations"]] == ["doc-travel-v2"]


@pytest.mark.spec("T2", "T5")
@pytest.mark.parametrize(("person", "route"), [("carol", "version_tool"), ("alice", "fixed_rag")])
async def test_route_to_document_versions_is_taken_only_by_whom_policy_offers_it(
    house: House, person: str, route: str
) -> None:
    run_id, done = await house.ask(person, "What does version 1 of doc-travel-v1 say?")
    assert (await house.reach(run_id, "run-routed"))["route"] == route
    assert ("600" in done["answer"]) is (person == "carol")


@pytest.mark.spec("K2", "I3", "T11")
@pytest.mark.parametrize("question", ["When do production releases go out?", "What is the layoff plan?"])
async def test_document_that_is_not_hers_is_not_found_for_alice(house: House, question: str) -> None:
    run_id, done = await house.ask("alice", question)
    assert done == {
        "finish_reason": "success",
        "answer": "Nothing about this was found in the documents you may read.",
        "citations": [],
    }
    assert CANARY not in str([event.envelope.data for event in await house.events(run_id)])


@pytest.mark.spec("K2")
async def test_document_that_is_his_is_answered_for_bob(house: House) -> None:
    _, done = await house.ask("bob", "When do production releases go out?")
    assert "Tuesdays and Thursdays" in done["answer"]


@pytest.mark.spec("I1")
@pytest.mark.parametrize("question", ["上海住宿上限是多少？", "Please refund order A1007, 10, it broke."])
async def test_dismissed_person_gets_nothing(house: House, question: str) -> None:
    _, done = await house.ask("mike", question)
    assert (done["finish_reason"], done["citations"]) == ("refused", [])
    assert "650" not in done["answer"]


@pytest.mark.spec("T5", "I3")
async def test_order_of_somebody_else_and_no_order_at_all_are_refused_alike(house: House) -> None:
    _, foreign = await house.ask("alice", "Please refund order A3001, 10, it broke.")
    _, absent = await house.ask("alice", "Please refund order A9999, 10, it broke.")
    assert foreign["finish_reason"] == absent["finish_reason"] == "failed"
    assert foreign["answer"].replace("A3001", "A9999") == absent["answer"]


@pytest.mark.spec("T9", "A8", "A10", "L1")
async def test_refund_is_proposed_approved_executed_once_and_told(house: House) -> None:
    question = f"Please refund order {ORDER}, 20, it arrived broken."
    run_id, card = await house.ask("alice", question, until_event="run-waiting-for-human")
    await house.ask("alice", "I confirm")
    assert (await house.rig.proposal("dave", card["proposal_id"])).status.value == "pending"
    await house.rig.approve("dave", card["proposal_id"])
    done = await house.reach(run_id, "run-completed")
    assert done["finish_reason"] == "success"
    assert done["answer"].startswith(f"Done: 20 CNY was refunded for order {ORDER}, refund R-")
    records = (await house.rig.audit(run_id=run_id)).items
    assert {"tool-decided", "proposal-completed", "effect-finished", "run-finished"} <= {r.type for r in records}
    _, refunds = await house.ask("alice", f"Show the refunds of order {ORDER}")
    assert refunds["answer"].count("Refund R-") == 1
