"""How good a ranking is, judged against what is relevant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

DEPTH = 10


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over the questions of a set, 0 to 1."""

    ndcg: float
    recall: float


def quality(rankings: Mapping[str, Sequence[str]], relevant: Mapping[str, Set[str]]) -> Quality:
    """nDCG@10 and recall@10 of one ranking of documents per question."""
    ndcg = [_ndcg(ranking, relevant[key]) for key, ranking in rankings.items()]
    recall = [len(set(ranking[:DEPTH]) & relevant[key]) / len(relevant[key]) for key, ranking in rankings.items()]
    return Quality(sum(ndcg) / len(ndcg), sum(recall) / len(recall))


def _ndcg(ranking: Sequence[str], relevant: Set[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, key in enumerate(ranking[:DEPTH]) if key in relevant)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(relevant))))
