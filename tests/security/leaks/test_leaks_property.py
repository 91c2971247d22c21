"""For any company, people and questions no trace of what may not be read, on the real server as the executor's role.

Rows that the specification names without words are read here as follows. R1: who may read is worked out from roles,
teams, clearance, ownership and tenant as they stand when somebody asks, never from anything kept. R5: what one may not
read leaves no trace, neither in counts, order and scores nor in time. There are no suggestions to leak through: search
answers with passages and nothing else.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sqlalchemy import TextClause

from placet.knowledge import scope as scopes
from placet.knowledge.errors import NotFound
from placet.knowledge.lexical import corpus_of
from placet.knowledge.models import Hit, KnowledgeScope
from placet.knowledge.search import Search
from placet.knowledge.store import KnowledgeStore
from placet.knowledge.tokens import terms
from placet.storage import Database
from placet.storage.database import Answer, Pipeline
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import add_base, add_document, new_tenant
from tests.security.leaks.worlds import TOPIC, World, build, canary_of, people, worlds

# The same companies each time; one that leaks is told of as it is, for looking for a smaller one takes minutes.
EVERY_TIME: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.generate,),
}
QUESTIONS = (TOPIC, "大门密码", "travel limit kestrel", "")


class Numbers:
    """Vectors without a model: texts with words in common lie near each other."""

    model, weight = "numbers", 0.3

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._of(text) for text in texts]

    def _of(self, text: str) -> list[float]:
        vector = [0.01] * 32
        for term in terms(text):
            vector[hashlib.sha256(term.encode()).digest()[0] % 32] += 1.0
        length = sum(value * value for value in vector) ** 0.5
        return [value / length for value in vector]


def _shown(hits: Sequence[Hit]) -> list[tuple[object, ...]]:
    return [(hit.chunk_id, hit.score, hit.coverage, hit.similarity, hit.snippet, hit.authors) for hit in hits]


@pytest.mark.spec("K2", "R1", "R2", "R3", "R5", "I4")
@settings(max_examples=20, **EVERY_TIME)
@given(world=worlds(), who=people(), other=worlds())
async def test_whatever_is_hidden_changes_nothing_that_its_non_reader_sees(
    postgres_rig: PostgresRig,
    caplog: pytest.LogCaptureFixture,
    world: World,
    who: tuple[str, frozenset[str], frozenset[str], int],
    other: World,
) -> None:
    """The same person in the whole company and in one that only ever held what they may read: no difference at all."""
    store = postgres_rig.knowledge(Numbers())
    whole, twin = new_tenant(), new_tenant()
    reader, in_twin = KnowledgeScope(whole, *who), KnowledgeScope(twin, *who)
    readable, hidden = world.readable(reader), world.hidden(reader)
    await build(store, twin, world, readable)
    await build(store, whole, world, world.papers)
    await build(store, new_tenant(), other, other.papers)
    with caplog.at_level(logging.DEBUG):
        seen: list[object] = []
        for question in (*QUESTIONS, *(paper.canary for paper in hidden)):
            found = await store.search(reader, question, 50)
            assert _shown(found) == _shown(await store.search(in_twin, question, 50)), question
            seen.append(found)
        seen.append(await _everything_else(store, reader, world))
        assert await _counts(postgres_rig, reader) == await _counts(postgres_rig, in_twin)
    assert {hit.document_id for hit in await store.search(reader, TOPIC, 50)} == {p.document_id for p in readable}
    for paper in hidden:
        assert paper.canary not in repr(seen)
        assert paper.canary not in caplog.text


async def _everything_else(store: KnowledgeStore, reader: KnowledgeScope, world: World) -> list[object]:
    """Lists, citations of every chunk there is, and every document asked for by its id."""
    listed = await store.list_documents(reader, limit=200)
    chunks = [f"{paper.document_id}:v1:chunk-{n:02d}" for paper in world.papers for n in (1, 2, 3)]
    cited = await store.resolve_chunks(reader, chunks)
    expected = {paper.document_id for paper in world.readable(reader)}
    assert {hit.document_id for hit in cited} == expected
    open_to_list = world.listed(reader)
    assert {item.document_id for item in listed.items} == {paper.document_id for paper in open_to_list}
    for paper in set(world.papers) - set(open_to_list):
        for call in (store.get_document, store.source):
            with pytest.raises(NotFound):
                await call(reader, paper.document_id)
    return [listed, cited]


async def _counts(rig: PostgresRig, reader: KnowledgeScope) -> list[object]:
    """What ranking counts: chunks, terms, and how many chunks hold each word."""
    async with rig.database().pipeline(local=scopes.settings(reader)) as pipeline:
        readable = await scopes.resolve(pipeline, reader)
        words = terms(f"{TOPIC} kestrel part one two " + " ".join(canary_of(number) for number in range(7)))
        corpus = await corpus_of(pipeline, readable, list(dict.fromkeys(words)))
    return [readable.keys and sorted(readable.keys), readable.chunks, readable.term_total, corpus.document_counts]


@pytest.mark.spec("R3")
@settings(max_examples=10, **EVERY_TIME)
@given(world=worlds(), who=people())
async def test_bodies_asked_for_without_any_scope_are_the_readable_ones_alone(
    postgres_rig: PostgresRig, world: World, who: tuple[str, frozenset[str], frozenset[str], int]
) -> None:
    """The second wall by itself: row-level security, as a search that forgot its predicate would meet it."""
    store, tenant = postgres_rig.knowledge(Numbers()), new_tenant()
    await build(store, tenant, world, world.papers)
    reader = KnowledgeScope(tenant, *who)
    async with postgres_rig.database().transaction(local=scopes.settings(reader), read_only=True) as connection:
        rows = (await connection.exec_driver_sql("SELECT tenant, document_id FROM knowledge.chunk_bodies")).all()
    readable = {(tenant, paper.document_id) for paper in world.readable(reader)}
    assert {(row.tenant, row.document_id) for row in rows} == readable


class _Revoking(Database):
    """Takes the base away from its readers when a search has found its hits and goes to read them."""

    def __init__(self, database: Database, store: KnowledgeStore, tenant: str) -> None:
        super().__init__(database.engine)
        self._store, self._tenant = store, tenant

    @asynccontextmanager
    async def pipeline(self, *, local: Mapping[str, str] | None = None) -> AsyncIterator[Pipeline]:
        async with super().pipeline(local=local) as pipeline:
            yield self._Late(self, pipeline)

    class _Late(Pipeline):
        def __init__(self, revoking: _Revoking, pipeline: Pipeline) -> None:
            self._revoking, self._pipeline = revoking, pipeline

        async def send(self, statement: TextClause, parameters: Mapping[str, Any]) -> Answer:
            if "chunk_bodies" in str(statement):
                await add_base(self._revoking._store, self._revoking._tenant, roles=["somebody-else"])
            return await self._pipeline.send(statement, parameters)


@pytest.mark.spec("R3", "R4")
async def test_hit_that_becomes_unreadable_between_search_and_reading_is_left_out(postgres_rig: PostgresRig) -> None:
    store, tenant = postgres_rig.knowledge(Numbers()), new_tenant()
    await add_base(store, tenant)
    await add_document(store, tenant, "doc-1", "The gate code is 4711.")
    reader = KnowledgeScope(tenant, "rita", frozenset({"employee"}))
    assert len(await store.search(reader, "gate code", 5)) == 1
    revoking = _Revoking(postgres_rig.database(), store, tenant)
    assert await Search(revoking, Numbers()).find(reader, "gate code", 5) == []
