"""Who is still somebody here, and what that person may read: the one question behind whatever the gateway shows."""

from __future__ import annotations

import pytest

from placet.contracts.execution import Citations, ResolveCitations
from placet.messaging.rpc import RpcClient
from tests.integration.governance_rig import GovernanceRig


async def ask(rig: GovernanceRig, person: str, chunk_ids: tuple[str, ...]) -> Citations:
    command = ResolveCitations(grant=rig.grant(person), chunk_ids=chunk_ids)
    client = RpcClient(await rig.nats.bus("gateway"))
    return await client.call("tool-executor", "resolve-citations", command, Citations, tenant="acme")


@pytest.mark.spec("I1", "R6")
async def test_standing_is_the_directorys_word_of_now_and_a_dismissed_person_reads_nothing(
    governance: GovernanceRig,
) -> None:
    found = await governance.execute("alice", "search_knowledge", {"query": "Shanghai lodging", "k": 3})
    chunks = tuple(one.chunk_id for one in found.evidence)
    assert chunks
    alice = await ask(governance, "alice", chunks)
    assert (alice.active, {one.chunk_id for one in alice.items}) == (True, set(chunks))
    assert await ask(governance, "alice", ()) == Citations(items=(), active=True)
    for gone in ("mike", "nobody-of-that-name"):
        assert await ask(governance, gone, chunks) == Citations(items=(), active=False)
        assert await ask(governance, gone, ()) == Citations(items=(), active=False)
