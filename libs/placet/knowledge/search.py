"""Hybrid search inside a scope: the scope is part of every query, and the bodies are read behind the second wall."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import PlacetError
from placet.knowledge import scope as scopes
from placet.knowledge import vectors
from placet.knowledge.embedders import NO_MODEL
from placet.knowledge.lexical import candidates_of, corpus_of
from placet.knowledge.models import Hit, KnowledgeScope
from placet.knowledge.ports import Database, Embedder
from placet.knowledge.ranking import Corpus, bm25, coverage, fuse, snippet
from placet.knowledge.scope import ReadableScope
from placet.knowledge.tokens import query_terms

VECTOR_CANDIDATES = 50
MAX_K = 50
MAX_QUERY = 4_000  # characters that are searched for
MAX_EMBEDDED = 600  # ... and whose meaning is: longer questions cost time and blur it
SPARE = 10  # read this many more bodies than asked for: some may become unreadable between search and reading

_log = logging.getLogger(__name__)

_BODIES = text("""
SELECT b.chunk_id, b.document_id, d.title, b.version, b.page, b.section, b.body, v.authors, d.trusted
FROM knowledge.chunk_bodies b
JOIN knowledge.documents d ON d.tenant = b.tenant AND d.document_id = b.document_id
JOIN knowledge.versions v ON v.tenant = b.tenant AND v.document_id = b.document_id AND v.version = b.version
WHERE b.tenant = :tenant AND b.chunk_id = ANY(CAST(:ids AS text[]))
""")


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for: its words, and its place in the space of `embedder`; without a vector, words alone."""

    wanted: list[str]
    embedder: Embedder
    vector: list[float] | None


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
        async with self._database.transaction(local=local, read_only=True) as connection:
            readable = await scopes.resolve(connection, scope)
            if not self._another_serves(readable.model):
                return await _found(connection, readable, question, k)
        # The model was changed since the last search: once, and with the connection given back while it is loaded.
        question = await self._question(query, wanted)
        async with self._database.transaction(local=local, read_only=True) as connection:
            return await _found(connection, await scopes.resolve(connection, scope), question, k)

    async def resolve(self, scope: KnowledgeScope, chunk_ids: Sequence[str]) -> list[Hit]:
        """Of `chunk_ids`, in their order, those that exist, are published and may be read now. Others are left out."""
        async with self._database.transaction(local=scopes.settings(scope), read_only=True) as connection:
            bodies = await _read_bodies(connection, scope.tenant, list(dict.fromkeys(chunk_ids)))
        return [_hit(bodies[chunk_id]) for chunk_id in dict.fromkeys(chunk_ids) if chunk_id in bodies]

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


async def _found(connection: AsyncConnection, readable: ReadableScope, question: Question, k: int) -> list[Hit]:
    wanted, embedder = question.wanted, question.embedder
    corpus = await corpus_of(connection, readable, wanted)
    candidates = await candidates_of(connection, readable, corpus, wanted)
    near: dict[str, float] = {}
    if question.vector is not None:
        near = await vectors.nearest(
            connection, readable, model=embedder.model, vector=question.vector, limit=VECTOR_CANDIDATES
        )
    ranked = fuse(bm25(candidates, corpus, wanted), near, embedder.weight)
    bodies = await _read_bodies(connection, readable.tenant, list(ranked)[: k + SPARE])
    counts = {candidate.chunk_id: candidate.counts for candidate in candidates}
    readable_now = [(chunk_id, score) for chunk_id, score in ranked.items() if chunk_id in bodies]
    return [
        replace(
            _hit(bodies[chunk_id], wanted, corpus),
            score=round(score, 6),
            coverage=round(coverage(counts.get(chunk_id, {}), wanted, corpus), 4),
            similarity=near.get(chunk_id),
        )
        for chunk_id, score in readable_now[:k]
    ]


def _embeddable(query: str) -> str:
    """Shortened, and without the lone surrogates that JSON can carry but UTF-8 cannot."""
    return query[:MAX_EMBEDDED].encode("utf-8", "replace").decode()


async def _read_bodies(connection: AsyncConnection, tenant: str, chunk_ids: list[str]) -> dict[str, Any]:
    """Rows by chunk id, under row-level security: this read is the check after the search."""
    rows = (await connection.execute(_BODIES, {"tenant": tenant, "ids": chunk_ids})).all()
    return {row.chunk_id: row for row in rows}


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
