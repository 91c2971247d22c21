"""Taking in and publishing: drafts are invisible, one of many publishers wins, nothing happens by halves."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from placet.knowledge.errors import LockVersionConflict, NotFound, NotPublishable, ParseError
from placet.knowledge.models import Acl, DocumentState, NewVersion, Publication
from placet.knowledge.store import KnowledgeStore
from placet.storage import OWNER
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import add_base, new_tenant, person


@pytest.fixture
def store(postgres_rig: PostgresRig) -> KnowledgeStore:
    return postgres_rig.knowledge()


@pytest.fixture
async def tenant(store: KnowledgeStore) -> str:
    """A tenant with the base `kb`, open to employees."""
    name = new_tenant()
    await add_base(store, name)
    return name


async def _take_in(store: KnowledgeStore, tenant: str, body: str, **more: object) -> DocumentState:
    values = {"filename": "a.md", "data": body.encode(), "created_by": "test"} | more
    return await store.ingest(NewVersion(tenant, "doc-1", "kb", "Gate rules", **values))  # type: ignore[arg-type]


async def _publish(store: KnowledgeStore, tenant: str, version: int, lock: int, key: str = "k") -> Publication:
    return await store.publish(tenant, "doc-1", version, lock_version=lock, actor="carol", idempotency_key=key)


@pytest.mark.spec("K1", "T8")
async def test_publish_replaces_what_is_found(store: KnowledgeStore, tenant: str) -> None:
    reader = person("rita", tenant=tenant)
    assert await _take_in(store, tenant, "The gate code is 1111.") == DocumentState(
        "doc-1", 1, "draft", 1, created=True
    )
    assert await store.search(reader, "gate code", 5) == []
    await _publish(store, tenant, 1, 1, "first")
    await _take_in(store, tenant, "The gate code is 2222.")
    assert "1111" in (await store.search(reader, "gate code", 5))[0].body
    done = await _publish(store, tenant, 2, 3, "second")
    assert (done.version, done.previous_version, done.lock_version, done.actor) == (2, 1, 4, "carol")
    assert [hit.chunk_id for hit in await store.search(reader, "gate code", 5)] == ["doc-1:v2:chunk-01"]
    assert (await store.read_version(reader, "doc-1", 1)).status == "archived"


@pytest.mark.spec("A11", "T8")
async def test_publish_raced_by_twenty_is_won_by_one(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.")
    racers = [_publish(store, tenant, 1, 1, f"key-{n}") for n in range(20)]
    outcomes = await asyncio.gather(*racers, return_exceptions=True)
    won = [outcome for outcome in outcomes if isinstance(outcome, Publication)]
    assert len(won) == 1
    assert sum(isinstance(outcome, LockVersionConflict) for outcome in outcomes) == 19
    recorded = [await store.lookup_publish(tenant, f"key-{n}") for n in range(20)]
    assert [entry for entry in recorded if entry is not None] == won


@pytest.mark.spec("G8")
async def test_publish_repeated_with_its_key_returns_the_first_outcome(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.")
    first = await _publish(store, tenant, 1, 1)
    again = await asyncio.gather(*(_publish(store, tenant, 1, 1) for _ in range(5)))
    assert again == [first] * 5
    assert await store.lookup_publish(tenant, "k") == first
    assert await store.lookup_publish("acme", "k") is None


@pytest.mark.spec("A11")
async def test_publish_with_an_old_lock_version_changes_nothing(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.")
    with pytest.raises(LockVersionConflict) as caught:
        await _publish(store, tenant, 1, 7)
    assert caught.value.details == {"expected": 7, "current": 1}
    assert await store.document_state(tenant, "doc-1") == DocumentState("doc-1", 1, "draft", 1)
    assert await store.lookup_publish(tenant, "k") is None


async def test_publish_of_what_is_published_or_absent_is_refused(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.")
    await _publish(store, tenant, 1, 1)
    with pytest.raises(NotPublishable):
        await _publish(store, tenant, 1, 2, "other")
    with pytest.raises(NotFound):
        await _publish(store, tenant, 9, 2, "other")


async def test_publish_of_an_archived_version_brings_it_back(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.")
    await _publish(store, tenant, 1, 1, "a")
    await _take_in(store, tenant, "The gate code is 2222.")
    await _publish(store, tenant, 2, 3, "b")
    await _publish(store, tenant, 1, 4, "undo b")
    (hit,) = await store.search(person("rita", tenant=tenant), "gate code", 5)
    assert "1111" in hit.body


async def test_archive_withdraws_the_published_version(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.")
    await _publish(store, tenant, 1, 1)
    with pytest.raises(LockVersionConflict):
        await store.archive(tenant, "doc-1", 1, lock_version=1)
    assert await store.archive(tenant, "doc-1", 1, lock_version=2) == 3
    assert await store.search(person("rita", tenant=tenant), "gate code", 5) == []
    with pytest.raises(NotFound):
        await store.archive(tenant, "doc-1", 1, lock_version=3)


@pytest.mark.spec("K1")
async def test_ingest_of_the_same_bytes_changes_nothing_even_when_raced(store: KnowledgeStore, tenant: str) -> None:
    states = await asyncio.gather(*(_take_in(store, tenant, "The gate code is 1111.") for _ in range(4)))
    assert sorted(state.created for state in states) == [False, False, False, True]
    assert {state.version for state in states} == {1}


async def test_ingest_of_a_new_version_never_changes_who_may_read(store: KnowledgeStore, tenant: str) -> None:
    await _take_in(store, tenant, "The gate code is 1111.", acl=Acl(roles=frozenset({"guard"})))
    await _take_in(store, tenant, "The gate code is 2222.", acl=Acl())
    await _publish(store, tenant, 2, 2)
    assert await store.search(person("rita", tenant=tenant), "gate code", 5) == []
    assert len(await store.search(person("greg", "guard", tenant=tenant), "gate code", 5)) == 1


async def test_ingest_into_an_absent_or_another_base_is_refused(store: KnowledgeStore, tenant: str) -> None:
    new = NewVersion(tenant, "doc-2", "no-such-base", "t", "a.md", b"text", "test")
    with pytest.raises(NotFound):
        await store.ingest(new)
    await _take_in(store, tenant, "The gate code is 1111.")
    await add_base(store, tenant, "other")
    with pytest.raises(NotFound):
        await store.ingest(NewVersion(tenant, "doc-1", "other", "t", "a.md", b"text", "test"))


async def test_ingest_of_a_bad_file_leaves_no_trace(store: KnowledgeStore, tenant: str) -> None:
    with pytest.raises(ParseError):
        await _take_in(store, tenant, "%PDF-1.7 no", filename="a.pdf")
    assert await store.document_state(tenant, "doc-1") is None


async def test_ingest_keeps_the_original_byte_for_byte(store: KnowledgeStore, tenant: str) -> None:
    data = "第一行\r\n\r\n全角：ＡＢＣ".encode("gb18030")
    await _take_in(store, tenant, "", data=data, filename="a.txt")
    original = await store.source(person("carol", tenant=tenant), "doc-1", include_unpublished=True)
    assert original.data == data


async def test_chunks_of_the_same_bytes_are_the_same_in_every_tenant(
    store: KnowledgeStore, tenant: str, postgres_rig: PostgresRig
) -> None:
    other = new_tenant()
    await add_base(store, other)
    body = "\n\n".join(f"# Part {n}\n\n" + "The gate is closed at night. " * 40 for n in range(6))
    for name in (tenant, other):
        await _take_in(store, name, body)
    query = text("SELECT chunk_id, section, body FROM knowledge.chunk_bodies WHERE tenant = :tenant ORDER BY chunk_id")
    async with postgres_rig.database(OWNER).transaction() as connection:
        first, second = [(await connection.execute(query, {"tenant": name})).all() for name in (tenant, other)]
    assert first == second
    assert len(first) > 6
