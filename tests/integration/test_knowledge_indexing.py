"""Reading a version into the index: step by step, by several workers, after a change of the parser."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import exc, text

from placet.contracts.errors import PlacetError
from placet.knowledge import scope as scopes
from placet.knowledge.errors import NotPublishable
from placet.knowledge.indexing import Indexing
from placet.knowledge.intake import add_version, original_key
from placet.knowledge.models import Acl, NewVersion, Reading
from placet.knowledge.parser import ParseLimits, Parser
from placet.knowledge.store import KnowledgeStore
from placet.storage import OWNER
from placet.testkit.originals import MemoryOriginals
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import add_base, new_tenant, person

pytestmark = pytest.mark.spec("K1")
BODY = "\n\n".join(f"# Part {n}\n\nThe heron number {n} stands still.\n" for n in range(150)).encode()


class ThreeNumbers:
    """An embedder without a model: a text's vector is its length."""

    model = "three-numbers"
    weight = 0.0

    def __init__(self) -> None:
        self.calls = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        await asyncio.sleep(0)
        return [[1.0, float(len(one)), 0.5] for one in texts]


@pytest.fixture
def store(postgres_rig: PostgresRig) -> KnowledgeStore:
    return postgres_rig.knowledge(ThreeNumbers())


@pytest.fixture
async def tenant(store: KnowledgeStore) -> str:
    name = new_tenant()
    await add_base(store, name)
    return name


async def _received(store: KnowledgeStore, rig: PostgresRig, tenant: str, data: bytes = BODY) -> dict[str, Any]:
    """A version whose file is stored and has not been looked at."""
    digest = f"digest-{len(data)}"
    new = NewVersion(tenant, "doc-1", "kb", "Herons", "a.md", b"", "test")
    await rig.originals.put(original_key(tenant, digest), data)
    async with rig.database().transaction(local=scopes.tenant_settings(tenant)) as connection:
        state = await add_version(connection, new, digest, len(data))
    return {"tenant": tenant, "document_id": "doc-1", "version": state.version}


async def _counts(rig: PostgresRig, tenant: str) -> list[int]:
    async with rig.database(OWNER).transaction() as connection:
        return [
            (
                await connection.execute(
                    text(f"SELECT count(*) FROM knowledge.{table} WHERE tenant = :tenant"), {"tenant": tenant}
                )
            ).scalar_one()
            for table in ("chunk_bodies", "chunk_terms", "chunk_vectors")
        ]


async def test_reading_tells_its_progress_and_is_done_once(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _received(store, postgres_rig, tenant)
    told: list[Reading] = []

    async def tell(reading: Reading) -> None:
        told.append(reading)

    reading = await store.indexing.run(tenant, "doc-1", where["version"], tell)
    assert (reading.state, reading.percent, reading.chunks) == ("ready", 100, 150)
    assert [one.state for one in told] == ["reading", "indexing", "indexing", "indexing"]
    percents = [one.percent for one in told]
    assert percents == sorted(percents)
    assert await store.indexing.run(tenant, "doc-1", where["version"], tell) == reading
    assert len(told) == 4
    assert await _counts(postgres_rig, tenant) == [150, 150, 150]


async def _stopped_early(store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str) -> dict[str, Any]:
    """A version whose reading began and was stopped between two steps."""
    where = await _received(store, postgres_rig, tenant)

    async def stop(reading: Reading) -> None:
        if reading.percent > 10:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        await store.indexing.run(tenant, "doc-1", where["version"], stop)
    return where


async def test_reading_by_four_workers_at_once_adds_every_chunk_once(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _received(store, postgres_rig, tenant)
    readings = await asyncio.gather(*(store.indexing.run(tenant, "doc-1", where["version"]) for _ in range(4)))
    assert {reading.state for reading in readings} == {"ready"}
    assert await _counts(postgres_rig, tenant) == [150, 150, 150]


async def test_reading_stopped_between_steps_goes_on_behind_the_last_one(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _stopped_early(store, postgres_rig, tenant)
    assert await _counts(postgres_rig, tenant) == [64, 64, 64]
    assert await store.search(person("rita", tenant=tenant), "heron", 5) == []
    with pytest.raises(NotPublishable):
        await store.publish(tenant, "doc-1", 1, lock_version=1, actor="carol", idempotency_key="k")
    embedder = store.indexing.embedder
    assert isinstance(embedder, ThreeNumbers)
    embedder.calls = 0
    assert (await store.indexing.run(tenant, "doc-1", where["version"])).state == "ready"
    assert embedder.calls == 2
    assert await _counts(postgres_rig, tenant) == [150, 150, 150]


async def test_reading_gone_on_with_other_chunks_than_it_began_with_starts_anew(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _stopped_early(store, postgres_rig, tenant)
    parsed = await store.indexing.parser.parse("a.md", BODY.replace(b"heron", b"stork"))
    reading = await store.indexing.index(where, "Herons", parsed)
    assert (reading.state, reading.chunks) == ("ready", 150)
    await store.publish(tenant, "doc-1", 1, lock_version=1, actor="carol", idempotency_key="k")
    found = await store.search(person("rita", tenant=tenant), "stork stands still", 20)
    assert [hit.body.split()[1] for hit in found] == ["stork"] * 20
    assert await _counts(postgres_rig, tenant) == [150, 150, 150]


async def test_reading_of_a_bad_file_is_failed_for_good_and_leaves_no_chunk(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _received(store, postgres_rig, tenant, b"\x00binary")
    reading = await store.indexing.run(tenant, "doc-1", where["version"])
    assert (reading.state, reading.reason) == ("failed", "bad_encoding")
    assert await store.indexing.run(tenant, "doc-1", where["version"]) == reading
    assert await _counts(postgres_rig, tenant) == [0, 0, 0]


@pytest.mark.spec("R3", "I4")
@pytest.mark.parametrize("function", ["drop_unready_chunks", "drop_chunks_for_rebuild"])
async def test_chunks_of_a_ready_version_cannot_be_dropped_by_the_executor(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str, function: str
) -> None:
    where = await _received(store, postgres_rig, tenant)
    await store.indexing.run(tenant, "doc-1", where["version"])
    for settings in (scopes.tenant_settings(tenant), scopes.tenant_settings("acme"), {}):
        with pytest.raises((exc.DBAPIError, PlacetError)):
            async with postgres_rig.database().transaction(local=settings) as connection:
                await connection.execute(text(f"SELECT knowledge.{function}(:tenant, 'doc-1', 1)"), {"tenant": tenant})
    assert await _counts(postgres_rig, tenant) == [150, 150, 150]


async def test_list_changed_while_a_version_is_read_holds_for_all_of_its_chunks(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _received(store, postgres_rig, tenant)

    async def narrow(reading: Reading) -> None:
        if reading.state == "indexing" and reading.percent > 10:
            await store.set_acl(tenant, "doc-1", Acl(roles=frozenset({"guard"})))

    await store.indexing.run(tenant, "doc-1", where["version"], narrow)
    state = await store.document_state(tenant, "doc-1")
    assert state is not None
    await store.publish(tenant, "doc-1", 1, lock_version=state.lock_version, actor="carol", idempotency_key="k")
    assert await store.search(person("rita", tenant=tenant), "heron", 5) == []
    assert len(await store.search(person("greg", "guard", tenant=tenant), "heron", 20)) == 20


async def test_published_version_takes_its_title_along(store: KnowledgeStore, tenant: str) -> None:
    async def take_in(title: str, body: bytes) -> int:
        new = NewVersion(tenant, "doc-1", "kb", title, "a.md", body, "test")
        return (await store.ingest(new)).lock_version

    await store.publish(
        tenant, "doc-1", 1, lock_version=await take_in("Old name", b"one"), actor="carol", idempotency_key="a"
    )
    lock_version = await take_in("New name", b"two")
    reader = person("rita", tenant=tenant)
    assert (await store.get_document(reader, "doc-1")).title == "Old name"
    await store.publish(tenant, "doc-1", 2, lock_version=lock_version, actor="carol", idempotency_key="b")
    assert (await store.get_document(reader, "doc-1")).title == "New name"


async def test_file_larger_than_is_read_fails_before_any_of_it_is_fetched(
    store: KnowledgeStore, postgres_rig: PostgresRig, tenant: str
) -> None:
    where = await _received(store, postgres_rig, tenant, b"x" * 101)
    parser, originals = Parser(ParseLimits(size=100)), MemoryOriginals()
    indexing = Indexing(postgres_rig.database(), originals, parser, ThreeNumbers())
    reading = await indexing.run(tenant, "doc-1", where["version"])
    assert (reading.state, reading.reason) == ("failed", "too_large")
    assert originals.files == {}, "it was not there to be fetched"
