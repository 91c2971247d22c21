"""Conversation summaries on the real bus: isolation, forgetting, limits, restarts (M1)."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.runs import Done, SaveSummary, Summary, SummaryOf
from placet.contracts.topology import BUCKETS
from placet.identity.grants import Purpose
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from tests.integration.agent_fakes import TENANT
from tests.integration.agent_rig import AgentRig


class Conversation:
    """One conversation as its people reach it: saved by the agent, read and forgotten through the gateway."""

    def __init__(self, rig: AgentRig) -> None:
        self._rig = rig
        self.id = new_id("conv")

    async def save(self, summary: str, actor: str = "alice", **grant: Any) -> Done:
        command = SaveSummary(grant=self._grant(actor, grant), conversation_id=self.id, summary=summary)
        tenant = grant.get("tenant", TENANT)
        client = RpcClient(await self._rig.nats.bus("agent"))
        return await client.call("memory", "save-summary", command, Done, tenant=tenant)

    async def get(self, actor: str = "alice", **grant: Any) -> Summary:
        command = SummaryOf(grant=self._grant(actor, grant), conversation_id=self.id)
        client = RpcClient(self._rig.gateway)
        return await client.call("memory", "get-summary", command, Summary, tenant=grant.get("tenant", TENANT))

    async def forget(self, actor: str = "alice") -> Done:
        command = SummaryOf(grant=self._grant(actor, {}), conversation_id=self.id)
        return await RpcClient(self._rig.gateway).call("memory", "forget-summary", command, Done, tenant=TENANT)

    def _grant(self, actor: str, changes: dict[str, Any]) -> str:
        return self._rig.grant("run-1", actor, **changes)


@pytest.fixture
def conversation(agent_rig: AgentRig) -> Conversation:
    return Conversation(agent_rig)


async def refused(work: Any) -> tuple[ErrorCode, str, dict[str, Any]]:
    with pytest.raises(PlacetError) as raised:
        await work
    return raised.value.code, raised.value.message, raised.value.details


@pytest.mark.spec("M1")
async def test_summary_saved_by_the_agent_is_read_by_its_owner(conversation: Conversation) -> None:
    await conversation.save("Q: lodging | A: 650")
    first = await conversation.get()
    assert first.summary == "Q: lodging | A: 650"
    await conversation.save("Q: meals | A: 120")
    second = await conversation.get(purpose=Purpose.REQUEST)
    assert second.summary == "Q: meals | A: 120"
    assert second.updated_at > first.updated_at


@pytest.mark.spec("M1", "I3", "I4")
async def test_summary_of_another_person_or_tenant_is_as_absent_as_one_that_never_was(
    agent_rig: AgentRig, conversation: Conversation
) -> None:
    await conversation.save("secret")
    never = await refused(Conversation(agent_rig).get())
    assert never[0] is ErrorCode.NOT_FOUND
    assert await refused(conversation.get("bob")) == never
    assert await refused(conversation.get(tenant="globex")) == never
    assert await refused(conversation.forget("bob")) == never
    assert (await conversation.get()).summary == "secret"


@pytest.mark.spec("M1")
async def test_summary_that_is_forgotten_is_gone_and_cannot_be_forgotten_twice(conversation: Conversation) -> None:
    await conversation.save("x")
    await conversation.forget()
    assert (await refused(conversation.get()))[0] is ErrorCode.NOT_FOUND
    assert (await refused(conversation.forget()))[0] is ErrorCode.NOT_FOUND
    await conversation.save("y")
    assert (await conversation.get()).summary == "y"


@pytest.mark.spec("M1")
async def test_summary_survives_a_restart_of_the_service(agent_rig: AgentRig, conversation: Conversation) -> None:
    from services.memory.app import build

    await conversation.save("kept")
    await agent_rig.memory.stop()
    agent_rig.memory = await build(agent_rig.memory_settings())
    await agent_rig.memory.start()
    assert (await conversation.get()).summary == "kept"


@pytest.mark.spec("M1")
async def test_summary_of_more_than_500_characters_or_of_blanks_is_refused(conversation: Conversation) -> None:
    await conversation.save("字" * 500)
    with pytest.raises(ValueError, match="500"):
        await conversation.save("x" * 501)
    assert (await refused(conversation.save("   ")))[0] is ErrorCode.INVALID_REQUEST


@pytest.mark.spec("I2")
async def test_command_without_a_valid_grant_is_unauthenticated(
    agent_rig: AgentRig, conversation: Conversation
) -> None:
    command = SummaryOf(grant="forged", conversation_id=conversation.id)
    call = RpcClient(agent_rig.gateway).call("memory", "get-summary", command, Summary, tenant=TENANT)
    assert (await refused(call))[0] is ErrorCode.UNAUTHENTICATED


@pytest.mark.spec("M1")
def test_summaries_end_by_themselves() -> None:
    (bucket,) = [bucket for bucket in BUCKETS if bucket.name == "MEMORY"]
    assert bucket.ttl_s == 30 * 86_400
    assert (bucket.readers, bucket.writers) == (("memory",), ("memory",))
