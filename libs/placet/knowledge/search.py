"""Hybrid search inside a scope: the scope is part of every query, and the bodies are read behind the second wall.

Up to 2,000 readable chunks everything is exact: each chunk that holds a word is ranked by BM25, each vector compared.
Above, likely chunks are ranked with word counts that are estimated, and vectors found by their sketches. What that
finds of the best ten that looking at everything would find (`python -m tests.benchmarks.search --recall`, made-up
chunks, of which meanings are noise; with real ones see `vectors`):

    readable chunks         200  2,000  20,000  20,000 of 200,000  200,000
    by words               1.00   1.00    0.92               0.91     0.84
    by meaning             1.00   1.00    0.99               0.98     0.66
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import text

from placet.contracts.errors import PlacetError
from placet.knowledge import scope as scopes
from placet.knowledge import vectors
from placet.knowledge.embedders import NO_MODEL
from placet.knowledge.lexical import EXACT_CHUNKS, candidates_of, corpus_of
from placet.knowledge.models import Hit, KnowledgeScope
from placet.knowledge.ports import Answer, Database, Embedder, Pipeline
from placet.knowledge.ranking import Corpus, bm25, coverage, fuse, snippet
from placet.knowledge.scope import ReadableScope
from placet.knowledge.tokens import query_terms

VECTOR_CANDIDATES = 50
MAX_K = 50
MAX_QUERY = 4_000  # characters that are searched for
MAX_EMBEDDED = 600  # ... and whose meaning is: longer questions cost time and blur it
SPARE = 10  # read this many more bodies than asked for: some may become unreadable between search and reading

_log = logging.getLogger(__name__)

# The bodies first, whatever the planner knows: begun at the documents, the work would grow with their number.
_BODIES = text("""
SELECT b.chunk_id, b.document_id, d.title, b.version, b.page, b.section, b.body, v.authors, d.trusted
FROM (SELECT * FROM knowledge.chunk_bodies
      WHERE tenant = :tenant AND chunk_id = ANY(CAST(:ids AS text[])) OFFSET 0) b
JOIN knowledge.documents d ON d.tenant = b.tenant AND d.document_id = b.document_id
JOIN knowledge.versions v ON v.tenant = b.tenant AND v.document_id = b.document_id AND v.version = b.version
""")


Beside = AbstractAsyncContextManager[Pipeline] | None


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for: its words, and its place in the space of `embedder`; without a vector, words alone."""

    wanted: list[str]
    embedder: Embedder
    vector: list[float] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What ranking gave, best first, and the bodies that are read of it."""

    wanted: list[str]
    corpus: Corpus
    counts: Mapping[str, Mapping[str, int]]
    near: Mapping[str, float]
    ranked: Mapping[str, float]
    bodies: Answer


class Search:
    """Reads only; one instance serves all actors.

    `others` gives the embedder of another model, if there is one: while a new model is prepared, and for a process that
    was started before or after the change, search goes on with the model that has all chunks.
    """

    def __init__(
        self, database: Database, embedder: Embedder, others: Callable[[str], Embedder | None] = lambda _: None
    ) -> None:
        self._database = database
        self._others = others
        self._own = embedder
        self._serving = embedder

    async def find(self, scope: KnowledgeScope, query: str, k: int) -> list[Hit]:
        """The best `k` (at most 50) chunks of published versions that `scope` may read now, best first."""
        k = max(1, min(k, MAX_K))
        wanted = query_terms(query[:MAX_QUERY])
        question = await self._question(query, wanted)
        local = {**scopes.settings(scope), **vectors.SETTINGS}
        async with self._database.pipeline(local=local) as pipeline:
            readable = await scopes.resolve(pipeline, scope)
            beside = self._beside(readable, question, local)
            found = (
                None if self._another_serves(readable.model) else await _find(pipeline, readable, question, k, beside)
            )
        if found is None:
            # The model was changed since the last search: once, and with the connection given back while it is loaded.
            question = await self._question(query, wanted)
            async with self._database.pipeline(local=local) as pipeline:
                found = await _find(pipeline, await scopes.resolve(pipeline, scope), question, k)
        return await _hits(found, k)

    async def resolve(self, scope: KnowledgeScope, chunk_ids: Sequence[str]) -> list[Hit]:
        """Of `chunk_ids`, in their order, those that exist, are published and may be read now. Others are left out."""
        wanted = list(dict.fromkeys(chunk_ids))
        async with self._database.pipeline(local=scopes.settings(scope)) as pipeline:
            answer = await _ask_for_bodies(pipeline, scope.tenant, wanted)
        bodies = await _bodies(answer)
        return [_hit(bodies[chunk_id]) for chunk_id in wanted if chunk_id in bodies]

    def _beside(self, readable: ReadableScope, question: Question, local: Mapping[str, str]) -> Beside:
        """A second connection, where there is so much to look at that two processes of the server are worth it.

        Only one that is free: searches that hold one and wait for another could wait for each other.
        """
        if question.vector is None or readable.chunks <= EXACT_CHUNKS or self._database.spare < 1:
            return None
        return self._database.pipeline(local=local)

    async def _question(self, query: str, wanted: list[str]) -> Question:
        """Embedded before a connection is held."""
        embedder = self._serving
        try:
            embedded = await embedder.embed([_embeddable(query)])
        except PlacetError as error:
            _log.warning("searching without vectors: %s", error)
            embedded = []
        return Question(wanted, embedder, embedded[0] if embedded else None)

    def _another_serves(self, model: str | None) -> bool:
        """Whether the serving model is another one than the last question was embedded with; then that is taken."""
        if model in (None, self._serving.model) or self._own.model == NO_MODEL:
            return False
        other = self._own if model == self._own.model else self._others(model or "")
        if other is None:
            return False
        self._serving = other
        return True


async def _find(
    pipeline: Pipeline, readable: ReadableScope, question: Question, k: int, beside: Beside = None
) -> Found:
    async with _nearest(pipeline, readable, question, beside) as nearest:
        corpus = await corpus_of(pipeline, readable, question.wanted)
        candidates = await candidates_of(pipeline, readable, corpus, question.wanted)
        near = await nearest()
    ranked = fuse(bm25(candidates, corpus, question.wanted), near, question.embedder.weight)
    bodies = await _ask_for_bodies(pipeline, readable.tenant, list(ranked)[: k + SPARE])
    counts = {candidate.chunk_id: candidate.counts for candidate in candidates}
    return Found(question.wanted, corpus, counts, near, ranked, bodies)


@asynccontextmanager
async def _nearest(
    pipeline: Pipeline, readable: ReadableScope, question: Question, beside: Beside
) -> AsyncIterator[Callable[[], Awaitable[dict[str, float]]]]:
    """Similar chunks by id are on their way: by the connection `beside`, if there is one, else by `pipeline`."""
    if beside is None:
        answer = await _ask_for_nearest(pipeline, readable, question)
        yield lambda: _similarities(answer)
        return
    asked = asyncio.create_task(_apart(beside, readable, question))
    try:
        yield lambda: asked
    finally:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


async def _apart(
    beside: AbstractAsyncContextManager[Pipeline], readable: ReadableScope, question: Question
) -> dict[str, float]:
    async with beside as pipeline:
        return await _similarities(await _ask_for_nearest(pipeline, readable, question))


async def _ask_for_nearest(pipeline: Pipeline, readable: ReadableScope, question: Question) -> Answer | None:
    if question.vector is None:
        return None
    return await vectors.ask(
        pipeline, readable, model=question.embedder.model, vector=question.vector, limit=VECTOR_CANDIDATES
    )


async def _similarities(nearest: Answer | None) -> dict[str, float]:
    return await vectors.similarities(nearest) if nearest is not None else {}


async def _hits(found: Found, k: int) -> list[Hit]:
    bodies = await _bodies(found.bodies)
    readable_now = [(chunk_id, score) for chunk_id, score in found.ranked.items() if chunk_id in bodies]
    return [
        replace(
            _hit(bodies[chunk_id], found.wanted, found.corpus),
            score=round(score, 6),
            coverage=round(coverage(found.counts.get(chunk_id, {}), found.wanted, found.corpus), 4),
            similarity=found.near.get(chunk_id),
        )
        for chunk_id, score in readable_now[:k]
    ]


def _embeddable(query: str) -> str:
    """Shortened, and without the lone surrogates that JSON can carry but UTF-8 cannot."""
    return query[:MAX_EMBEDDED].encode("utf-8", "replace").decode()


async def _ask_for_bodies(pipeline: Pipeline, tenant: str, chunk_ids: list[str]) -> Answer:
    """Under row-level security: this read is the check after the search."""
    return await pipeline.send(_BODIES, {"tenant": tenant, "ids": chunk_ids})


async def _bodies(answer: Answer) -> dict[str, Any]:
    """Rows by chunk id."""
    return {row.chunk_id: row for row in await answer.rows()}


def _hit(row: Any, wanted: Sequence[str] = (), corpus: Corpus | None = None) -> Hit:
    return Hit(
        chunk_id=row.chunk_id,
        document_id=row.document_id,
        title=row.title,
        version=row.version,
        page=row.page,
        section=row.section,
        snippet=snippet(row.body, wanted, corpus),
        body=row.body,
        score=0.0,
        authors=tuple(row.authors),
        trusted=row.trusted,
    )
