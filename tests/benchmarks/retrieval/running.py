"""One question set through the real store: words alone, meaning alone, both; and plain BM25 of a library beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import bm25s

from placet.knowledge import scope as scopes
from placet.knowledge import vectors
from placet.knowledge.embedders import NoEmbedder
from placet.knowledge.models import Acl, KnowledgeBase, KnowledgeScope, NewVersion
from placet.knowledge.tokens import query_terms, terms
from placet.testkit.postgres import PostgresRig
from tests.benchmarks.retrieval.scoring import DEPTH, Quality, quality
from tests.benchmarks.retrieval.sets import QuestionSet
from tests.integration.knowledge_world import Remembering

KINDS = ("library", "lexical", "vector", "hybrid")
TOLERANCE = 0.01
_PASSAGES = 50


@dataclass(frozen=True, slots=True)
class Outcome:
    """The quality of each of `KINDS` on one set."""

    questions: QuestionSet
    by_kind: Mapping[str, Quality]

    @property
    def lexical_lag(self) -> float:
        """How far words alone stay behind the library's BM25; negative when they are better."""
        return self.by_kind["library"].ndcg - self.by_kind["lexical"].ndcg

    @property
    def hybrid_lag(self) -> float:
        """How far both together stay behind the better of the two."""
        return max(self.by_kind[kind].ndcg for kind in ("lexical", "vector")) - self.by_kind["hybrid"].ndcg

    @property
    def holds(self) -> bool:
        return self.lexical_lag <= TOLERANCE and self.hybrid_lag <= TOLERANCE


async def run(rig: PostgresRig, questions: QuestionSet, tenant: str) -> Outcome:
    """Take the documents in as `tenant`, which is new, and ask every question in every way."""
    embedder = Remembering(rig.embedder)
    store, words = rig.knowledge(embedder), rig.knowledge(NoEmbedder())
    reader = KnowledgeScope(tenant, "reader", frozenset({"reader"}))
    await store.put_base(KnowledgeBase(tenant, "kb", "kb", Acl(roles=frozenset({"reader"}))))
    numbers = {key: f"doc-{number}" for number, key in enumerate(questions.docs)}
    for key, doc in questions.docs.items():
        new = NewVersion(tenant, numbers[key], "kb", doc.title, "a.txt", doc.text.encode(), "bench")
        state = await store.ingest(new)
        await store.publish(
            tenant, state.document_id, 1, lock_version=state.lock_version, actor="bench", idempotency_key=numbers[key]
        )
    async with rig.database("placet_owner").transaction() as connection:
        await connection.exec_driver_sql("ANALYZE knowledge.chunk_terms, knowledge.chunk_vectors")
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    local = {**scopes.settings(reader), **vectors.SETTINGS}
    found["library"] = _library(questions, numbers)
    for key, text in questions.queries.items():
        (vector,) = await embedder.embed([text])
        async with rig.database().pipeline(local=local) as pipeline:
            readable = await scopes.resolve(pipeline, reader)
            nearest = await vectors.ask(pipeline, readable, model=embedder.model, vector=vector, limit=_PASSAGES)
            near = await vectors.similarities(nearest)
        found["vector"][key] = _documents(near)
        found["lexical"][key] = _documents([hit.chunk_id for hit in await words.search(reader, text, _PASSAGES)])
        found["hybrid"][key] = _documents([hit.chunk_id for hit in await store.search(reader, text, _PASSAGES)])
    relevant = {key: {numbers[doc] for doc in questions.relevant[key]} for key in questions.queries}
    return Outcome(questions, {kind: quality(ranked, relevant) for kind, ranked in found.items()})


def _library(questions: QuestionSet, numbers: Mapping[str, str]) -> dict[str, list[str]]:
    """BM25 of bm25s over whole documents, with the terms that our index holds and our queries ask for."""
    index = bm25s.BM25(method="lucene")
    index.index([terms(f"{doc.title}\n{doc.text}") for doc in questions.docs.values()], show_progress=False)
    ids = list(numbers.values())
    depth = min(DEPTH, len(ids))
    found = {}
    for key, text in questions.queries.items():
        known = [term for term in query_terms(text) if term in index.vocab_dict]
        places, scores = index.retrieve([known], k=depth, show_progress=False)
        found[key] = [ids[place] for place, score in zip(places[0], scores[0], strict=True) if score > 0]
    return found


def _documents(chunk_ids: Sequence[str] | Mapping[str, float]) -> list[str]:
    """Each document at the place of its best passage."""
    return list(dict.fromkeys(chunk_id.partition(":")[0] for chunk_id in chunk_ids))
