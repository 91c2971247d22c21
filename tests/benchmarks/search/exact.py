"""What a search that looks at every chunk would find: how near the real one comes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placet.knowledge import scope as scopes
from placet.knowledge import vectors
from placet.knowledge.embedders import NoEmbedder
from placet.knowledge.models import KnowledgeScope
from placet.knowledge.ranking import K1
from placet.knowledge.search import Search
from placet.knowledge.tokens import query_terms
from placet.storage import Database
from tests.benchmarks.search.corpus import WORDS, Corpus
from tests.benchmarks.search.filling import MODEL, chunk_id

K = 10
_ALIKE = 1e-4  # scores that differ by less are equally good
_BLOCK = 5_000


class Exact:
    """All chunks of a corpus against some questions. Chunks are as long as the average, every one of them."""

    def __init__(self, corpus: Corpus, questions: Sequence[tuple[str, list[float]]]) -> None:
        places = list(corpus.places())
        self._bases = np.array([place.base for place in places])
        self._row = {chunk_id(place).decode(): row for row, place in enumerate(places)}
        asked = np.array([vector for _, vector in questions], dtype=np.float32)
        self._similar = np.concatenate(
            [
                np.array([corpus.vector_of(place) for place in places[start : start + _BLOCK]]) @ asked.T
                for start in range(0, len(places), _BLOCK)
            ]
        )
        self._wanted = [query_terms(text) for text, _ in questions]
        self._counts = {
            term: np.zeros(len(places), dtype=np.uint8) for term in sorted({t for w in self._wanted for t in w})
        }
        known = np.array([corpus.terms[word] in self._counts for word in range(WORDS)])
        for row, place in enumerate(places):
            words = corpus.words_of(place)
            for word in words[known[words]]:
                self._counts[corpus.terms[word]][row] += 1

    def words_recall(self, question: int, bases: int, found: Sequence[str]) -> float:
        """The share of the best ten by BM25 that `found` has, or chunks that are as good."""
        readable = self._bases < bases
        scores = np.zeros(len(self._bases))
        for term in self._wanted[question]:
            counts = self._counts[term]
            seen, chunks = int((counts[readable] > 0).sum()), int(readable.sum())
            weight = np.log(1 + (chunks - seen + 0.5) / (seen + 0.5))
            scores += weight * counts * (K1 + 1) / (counts + K1)
        return self._recall(scores * readable, found)

    def meaning_recall(self, question: int, bases: int, found: Sequence[str]) -> float:
        """The same of the ten nearest."""
        return self._recall((self._similar[:, question] + 1) * (self._bases < bases), found)

    def _recall(self, scores: NDArray[np.float64], found: Sequence[str]) -> float:
        best = np.sort(scores)[::-1][:K]
        best = best[best > 0]
        good = sum(scores[self._row[name]] >= best[-1] - _ALIKE for name in found[:K]) if len(best) else 0
        return good / len(best) if len(best) else 1.0


@dataclass(frozen=True, slots=True)
class Recall:
    words: float
    meaning: float


async def measure(
    database: Database, exact: Exact, reader: KnowledgeScope, bases: int, questions: Sequence[tuple[str, list[float]]]
) -> Recall:
    """Means over the questions: of the ten best by words alone, of the ten nearest by meaning alone."""
    search = Search(database, NoEmbedder())
    words, meaning = [], []
    for number, (text, vector) in enumerate(questions):
        hits = await search.find(reader, text, K)
        words.append(exact.words_recall(number, bases, [hit.chunk_id for hit in hits]))
        near = await _near(database, reader, vector)
        meaning.append(exact.meaning_recall(number, bases, list(near)))
    return Recall(float(np.mean(words)), float(np.mean(meaning)))


async def _near(database: Database, reader: KnowledgeScope, vector: Sequence[float]) -> Mapping[str, float]:
    async with database.pipeline(local={**scopes.settings(reader), **vectors.SETTINGS}) as pipeline:
        readable = await scopes.resolve(pipeline, reader)
        answer = await vectors.ask(pipeline, readable, model=MODEL, vector=vector, limit=K)
        return await vectors.similarities(answer)
