"""Search where not everything can be looked at: full, inside the scope, and close to what looking at all would find."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from sqlalchemy.engine import make_url

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge import scope as scopes
from placet.knowledge import vectors
from placet.knowledge.models import KnowledgeScope
from placet.knowledge.ranking import K1
from placet.knowledge.scope import ReadableScope
from placet.knowledge.search import Search
from placet.knowledge.tokens import query_terms
from placet.storage import Database
from placet.testkit.postgres import PostgresRig
from tests.benchmarks.search.corpus import BASES, WORDS_PER_CHUNK, Corpus, Place
from tests.benchmarks.search.filling import MODEL, fill
from tests.integration.knowledge_world import new_tenant

CHUNKS, QUESTIONS, K = 3_000, 12, 10


class Company:
    """Chunks as the test knows them. `few` read 3, `tenth` 300, `everything` all of them."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.corpus = Corpus(CHUNKS)
        self.questions = self.corpus.questions(QUESTIONS)
        self._places = list(self.corpus.places())
        self._words = [Counter(self.corpus.terms[word] for word in self.corpus.words_of(p)) for p in self._places]
        self._vectors = np.array([self.corpus.vector_of(place) for place in self._places])

    def reader(self, role: str) -> KnowledgeScope:
        return KnowledgeScope(self.tenant, "reader", frozenset({role}))

    def bases(self, role: str) -> range:
        return range({"few": 1, "tenth": 10, "everything": BASES}[role])

    def by_words(self, role: str, text: str) -> list[str]:
        """BM25 over every readable chunk."""
        readable = [index for index, place in enumerate(self._places) if place.base in self.bases(role)]
        wanted = query_terms(text)
        rarity = {term: self._rarity(sum(term in self._words[i] for i in readable), len(readable)) for term in wanted}
        scores = {self._name(i): self._score(self._words[i], rarity) for i in readable}
        return sorted((name for name in scores if scores[name] > 0), key=lambda name: (-scores[name], name))

    def similarities(self, vector: Sequence[float]) -> list[float]:
        """To every chunk, greatest first."""
        return sorted(map(float, self._vectors @ np.array(vector)), reverse=True)

    def _name(self, index: int) -> str:
        return chunk_id(self._places[index])

    @staticmethod
    def _rarity(seen: int, chunks: int) -> float:
        return math.log(1 + (chunks - seen + 0.5) / (seen + 0.5))

    @staticmethod
    def _score(words: Mapping[str, int], rarity: Mapping[str, float]) -> float:
        """Every chunk is as long as the average."""
        return sum(
            weight * words[term] * (K1 + 1) / (words[term] + K1) for term, weight in rarity.items() if term in words
        )


def chunk_id(place: Place) -> str:
    return f"doc-{place.document}:v1:chunk-{place.ordinal:02d}"


class Given:
    model, weight = MODEL, 0.3

    def __init__(self, known: Mapping[str, list[float]]) -> None:
        self._known = known

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._known[text] for text in texts if text in self._known]


@pytest.fixture(scope="module")
async def company(postgres_rig: PostgresRig) -> Company:
    company = Company(new_tenant())
    admin = make_url(postgres_rig.server.admin_url).set(database="placet").render_as_string(hide_password=False)
    await fill(admin, company.tenant, company.corpus)
    return company


@pytest.mark.spec("K2", "R2")
@pytest.mark.parametrize(("role", "hits"), [("few", 3), ("tenth", K), ("everything", K)])
async def test_search_in_a_large_company_is_full_and_inside_the_scope(
    postgres_rig: PostgresRig, company: Company, role: str, hits: int
) -> None:
    search = Search(postgres_rig.database(), Given(dict(company.questions)))
    for text, _ in company.questions:
        found = await search.find(company.reader(role), text, K)
        assert len(found) == hits, text
        assert {int(hit.title.removeprefix("Document ")) for hit in found} <= {
            place.document for place in company.corpus.places() if place.base in company.bases(role)
        }


@pytest.mark.spec("K2")
@pytest.mark.parametrize("connections", [1, 2])
async def test_many_searches_on_few_connections_find_the_same_and_wait_for_none_of_each_other(
    postgres_rig: PostgresRig, company: Company, connections: int
) -> None:
    """A second connection is taken only where one is free: with each search holding one, all would wait for ever."""
    reader = company.reader("everything")
    roomy = Search(postgres_rig.database(), Given(dict(company.questions)))
    expected = [await roomy.find(reader, text, K) for text, _ in company.questions]
    database = Database.open(postgres_rig.url(), pool_size=connections, overflow=0)
    narrow = Search(database, Given(dict(company.questions)))
    assert await asyncio.gather(*(narrow.find(reader, text, K) for text, _ in company.questions)) == expected
    assert database.spare == connections
    await database.close()


@pytest.mark.spec("K2")
@pytest.mark.parametrize("failing", ["ask", "similarities"])
async def test_search_that_fails_on_its_second_connection_says_so_and_the_next_one_works(
    postgres_rig: PostgresRig, company: Company, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise PlacetError(ErrorCode.TIMEOUT, "The database took too long.")

    database = Database.open(postgres_rig.url(), pool_size=2, overflow=0)
    search, text = Search(database, Given(dict(company.questions))), company.questions[0][0]
    with monkeypatch.context() as patch:
        patch.setattr(vectors, failing, away)
        with pytest.raises(PlacetError) as caught:
            await search.find(company.reader("everything"), text, K)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert database.spare == 2
    assert len(await search.find(company.reader("everything"), text, K)) == K
    await database.close()


@pytest.mark.spec("K2")
@pytest.mark.parametrize("role", ["few", "tenth", "everything"])
async def test_words_find_what_ranking_every_chunk_would_find(
    postgres_rig: PostgresRig, company: Company, role: str
) -> None:
    """Above 2,000 chunks word rarity is estimated and only the likely chunks are ranked."""
    search = Search(postgres_rig.database(), Given({}))
    alike = []
    for text, _ in company.questions:
        expected = company.by_words(role, text)[:K]
        found = [hit.chunk_id for hit in await search.find(company.reader(role), text, K)]
        assert len(found) == len(expected)
        assert found[:1] == expected[:1] or role == "everything"
        alike.append(len({*found} & {*expected}) / len(expected) if expected else 1.0)
    assert sum(alike) / len(alike) >= (0.85 if role == "everything" else 1.0), alike


@pytest.mark.spec("K2")
@pytest.mark.parametrize("graph", [False, True], ids=["sketches", "graph"])
async def test_sketches_find_what_comparing_every_vector_would_find(
    postgres_rig: PostgresRig, company: Company, monkeypatch: pytest.MonkeyPatch, graph: bool
) -> None:
    """Judged by how near it is: these vectors are noise, among which the ten nearest are hardly nearer than others."""
    monkeypatch.setattr(vectors, "GRAPH_FROM_CHUNKS", 1 if graph else 10**9)
    reader = company.reader("everything")
    local = {**scopes.settings(reader), **vectors.SETTINGS}
    async with postgres_rig.database().pipeline(local=local) as pipeline:
        readable: ReadableScope = await scopes.resolve(pipeline, reader)
        assert (readable.chunks, readable.term_total) == (CHUNKS, CHUNKS * WORDS_PER_CHUNK)
        assert readable.mostly
        for _, vector in company.questions:
            near = await vectors.similarities(
                await vectors.ask(pipeline, readable, model=MODEL, vector=vector, limit=50)
            )
            nearest = company.similarities(vector)
            assert len(near) == 50
            assert max(near.values()) == pytest.approx(nearest[0], abs=1e-3)
            assert sum(list(near.values())[:K]) >= 0.9 * sum(nearest[:K])
            assert list(near.values()) == sorted(near.values(), reverse=True)
