"""For any company, people and questions: what may not be read is in no reply of the executor and in no event of it.

The same companies as in the property test of the store, through governed calls of the real executor and real policy.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from placet.contracts.directory import Person
from placet.contracts.errors import PlacetError
from placet.contracts.execution import (
    Citations,
    DocumentPage,
    DocumentView,
    GetDocument,
    ListDocuments,
    ReadSource,
    ResolveCitations,
    SourceSlice,
)
from placet.knowledge.models import KnowledgeScope
from placet.messaging.kv import KeyValue
from placet.messaging.reading import EventReader
from placet.messaging.rpc import RpcClient
from tests.integration.governance_rig import GovernanceRig
from tests.integration.knowledge_world import new_tenant
from tests.security.leaks.test_leaks_property import QUESTIONS, Numbers
from tests.security.leaks.worlds import USERS, World, build, people, worlds
from tests.security.run_house import RunHouse

STREAMS = ("AUDIT", "APPROVALS", "EFFECTS", "RUNS", "DOCUMENTS")
# Names that the directory can hold; the others are tried on the store.
ORDINARY = people().filter(lambda who: who[0] in (*USERS, "stranger"))


class Asking:
    """One person's governed calls, and everything that came of them."""

    def __init__(self, rig: GovernanceRig, tenant: str, who: str) -> None:
        self._rig, self._tenant, self._who = rig, tenant, who
        self.replies: list[str] = []

    async def note(self, answer: Awaitable[Any]) -> None:
        try:
            reply = await answer
            self.replies.append(repr(reply))
            if isinstance(reply, SourceSlice):
                self.replies.append(base64.b64decode(reply.data).decode())
        except PlacetError as error:
            self.replies.append(f"{error} {error.details}")

    async def everything(self, world: World) -> None:
        for question in QUESTIONS[:3]:
            await self._tool("search_knowledge", query=question, k=20)
        await self._command("list-documents", ListDocuments(grant=self._grant(), limit=200), DocumentPage)
        chunks = tuple(f"{paper.document_id}:v1:chunk-0{n}" for paper in world.papers for n in (1, 2))
        cited = ResolveCitations(grant=self._grant(), chunk_ids=chunks, evidence=chunks)
        await self._command("resolve-citations", cited, Citations)
        for paper in world.papers:
            await self._tool("get_document_source", document_id=paper.document_id)
            await self._tool("read_document_version", document_id=paper.document_id, version=1)
            named = {"grant": self._grant(), "document_id": paper.document_id}
            await self._command("get-document", GetDocument(**named), DocumentView)
            await self._command("read-source", ReadSource(**named, version=1), SourceSlice)

    def _grant(self) -> str:
        return self._rig.grant(self._who, tenant=self._tenant)

    async def _tool(self, tool: str, **args: Any) -> None:
        await self.note(self._rig.execute(self._who, tool, args, tenant=self._tenant))

    async def _command(self, name: str, command: Any, reply: type[Any]) -> None:
        client = RpcClient(await self._rig.nats.bus("gateway"))
        await self.note(client.call("tool-executor", name, command, reply, tenant=self._tenant))


async def _events(rig: GovernanceRig, tenant: str) -> list[str]:
    bus = await rig.nats.bus("provision")  # nobody else may read all of these streams
    found = [await EventReader(bus, stream).page(f"placet.{tenant}.>", after=0, limit=10_000) for stream in STREAMS]
    return [event.envelope.model_dump_json() for page in found for event in page]


@pytest.mark.spec("K2", "K3", "R2", "R5", "R6", "L1")
@pytest.mark.timeout(300)
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)
@given(world=worlds(), who=ORDINARY, admin=st.booleans())
async def test_hidden_text_is_in_no_reply_and_in_no_event(
    run_house: RunHouse, world: World, who: tuple[str, frozenset[str], frozenset[str], int], admin: bool
) -> None:
    """An administrator of documents reads drafts too, but only of what is open to them."""
    rig, tenant = run_house.rig, new_tenant()
    name, roles, teams, clearance = who
    clearance = max(0, clearance)
    roles = roles | {"employee"} | ({"knowledge_admin"} if admin else set())
    await build(rig.postgres.knowledge(Numbers()), tenant, world, world.papers)
    person = Person(id=name, tenant=tenant, active=True, roles=tuple(roles), teams=tuple(teams), clearance=clearance)
    directory = KeyValue(await rig.nats.bus("tool-executor"), "DIRECTORY")
    await directory.put(f"{tenant}.{name}", person.model_dump_json().encode())
    reader = KnowledgeScope(tenant, name, roles, teams, clearance)
    shown = world.listed(reader) if not admin else world.open_to(reader)
    asking = Asking(rig, tenant, name)
    await asking.everything(world)
    events = await _events(rig, tenant)
    assert any("tool" in event for event in events)
    for paper in world.readable(reader):
        assert any(paper.canary in reply for reply in asking.replies), "what is open is found"
    for paper in set(world.papers) - set(shown):
        assert not [one for one in asking.replies if paper.canary in one]
    for paper in world.papers:
        assert not [one for one in events if paper.canary in one], "not even what was shown is on record"
