"""Pure ranking: BM25 over candidates, fusion of rankings, and the snippet that shows why a chunk was found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placet.knowledge.chunking import columns, sentences
from placet.knowledge.tokens import terms

K1 = 1.2
B = 0.75
RRF_K = 60
SNIPPET_COLUMNS = 240
_CHINESE_ENDS = ("。", "！", "？")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that holds at least one query term; `counts` are the occurrences of each."""

    chunk_id: str
    length: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the reader may see, as statistics. Never over more than that: term rarity would tell of hidden text."""

    chunks: int
    term_total: int
    document_counts: Mapping[str, int]

    def weight(self, term: str) -> float:
        """Inverse document frequency, never negative."""
        seen = min(self.document_counts.get(term, 0), self.chunks)
        return math.log(1 + (self.chunks - seen + 0.5) / (seen + 0.5))


def bm25(candidates: Sequence[Candidate], corpus: Corpus) -> list[str]:
    """Chunk ids, best first; equal scores in the order of their ids."""
    average = corpus.term_total / corpus.chunks if corpus.chunks else 1.0
    scores: dict[str, float] = {}
    for candidate in candidates:
        norm = K1 * (1 - B + B * candidate.length / (average or 1.0))
        scores[candidate.chunk_id] = sum(
            corpus.weight(term) * count * (K1 + 1) / (count + norm) for term, count in candidate.counts.items()
        )
    return sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))


def coverage(counts: Mapping[str, int], wanted: Sequence[str], corpus: Corpus) -> float:
    """The share of the question's words found, by weight: 0 none, 1 all."""
    total = sum(corpus.weight(term) for term in wanted)
    return sum(corpus.weight(term) for term in wanted if term in counts) / total if total else 0.0


def fuse(rankings: Sequence[tuple[Sequence[str], float]]) -> list[tuple[str, float]]:
    """Reciprocal rank fusion of (ranking, weight); (chunk id, score), best first."""
    scores: dict[str, float] = {}
    for ranking, weight in rankings:
        for rank, chunk_id in enumerate(ranking, start=1):
            scores[chunk_id] = scores.get(chunk_id, 0.0) + weight / (RRF_K + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def snippet(body: str, wanted: Sequence[str], corpus: Corpus | None = None) -> str:
    """The sentence with the most telling query terms and what follows it, up to about 240 columns.

    Without a match (a hit by meaning only) the beginning of the chunk.
    """
    parts = sentences(body)
    if not parts:
        return ""
    best = max(range(len(parts)), key=lambda index: (_telling(parts[index], wanted, corpus), -index))
    held = parts[best]
    for part in parts[best + 1 :]:
        if columns(held) + columns(part) > SNIPPET_COLUMNS:
            break
        held += part if held.endswith(_CHINESE_ENDS) else f" {part}"
    return held if columns(held) <= 2 * SNIPPET_COLUMNS else held[:SNIPPET_COLUMNS].rstrip() + "…"


def _telling(sentence: str, wanted: Sequence[str], corpus: Corpus | None) -> float:
    present = set(terms(sentence))
    return sum(corpus.weight(term) if corpus is not None else 1.0 for term in wanted if term in present)
