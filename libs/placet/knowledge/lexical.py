"""Candidates by words, inside a scope, with what BM25 needs to rank them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.ranking import Candidate, Corpus
from placet.knowledge.scope import ReadableScope
from placet.knowledge.tokens import quoted

CANDIDATES = 200

_CANDIDATES = text("""
SELECT c.chunk_id, c.term_count,
       ARRAY(SELECT ts_rank(c.terms, term) FROM unnest(CAST(:terms AS tsquery[])) AS term) AS ranks
FROM (
    SELECT chunk_id, term_count, terms, ts_rank(terms, CAST(:any_term AS tsquery), 1) AS rank
    FROM knowledge.chunk_terms
    WHERE tenant = :tenant AND published AND scope_key = ANY(CAST(:keys AS text[]))
      AND terms @@ CAST(:any_term AS tsquery)
    ORDER BY rank DESC, chunk_id
    LIMIT :limit
) c
""")

_DOCUMENT_COUNTS = text("""
SELECT term, (
    SELECT count(*) FROM knowledge.chunk_terms c
    WHERE c.tenant = :tenant AND c.published AND c.scope_key = ANY(CAST(:keys AS text[]))
      AND c.terms @@ CAST(quote_literal(term) AS tsquery)) AS chunks
FROM unnest(CAST(:terms AS text[])) AS term
""")

# What `ts_rank` gives for one term that occurs n times: 0.1 * (1 + 1/4 + ... + 1/n²) / 1.64493406685. Turning it round
# gives the count exactly (the steps are wider than a 4-byte float's precision up to n = 255, where positions end), in a
# ninth of the time that unpacking the vector takes.
_RANKS = [0.1 * total / 1.64493406685 for total in accumulate(1 / (n * n) for n in range(1, 256))]


def occurrences(rank: float) -> int:
    """How often a term occurs, from `ts_rank` of that term alone; 0 for 0."""
    if rank <= 0:
        return 0
    above = bisect_left(_RANKS, rank)
    nearest = min(
        (index for index in (above - 1, above) if 0 <= index < len(_RANKS)), key=lambda i: abs(_RANKS[i] - rank)
    )
    return nearest + 1


async def corpus_of(connection: AsyncConnection, tenant: str, readable: ReadableScope, wanted: list[str]) -> Corpus:
    """In how many readable chunks each term occurs."""
    parameters = {"tenant": tenant, "keys": list(readable.keys), "terms": wanted}
    rows = (await connection.execute(_DOCUMENT_COUNTS, parameters)).all()
    counts = {row.term: int(row.chunks) for row in rows}
    return Corpus(chunks=readable.chunks, term_total=readable.term_total, document_counts=counts)


async def candidates_of(
    connection: AsyncConnection, tenant: str, readable: ReadableScope, wanted: list[str]
) -> list[Candidate]:
    """The readable chunks that look best by a rough rank, with how often each term occurs in them."""
    parameters = {
        "tenant": tenant,
        "keys": list(readable.keys),
        "terms": [quoted(term) for term in wanted],
        "any_term": " | ".join(quoted(term) for term in wanted),
        "limit": CANDIDATES,
    }
    rows = (await connection.execute(_CANDIDATES, parameters)).all()
    return [Candidate(chunk_id=row.chunk_id, length=row.term_count, counts=_counts(wanted, row.ranks)) for row in rows]


def _counts(wanted: list[str], ranks: list[float]) -> dict[str, int]:
    return {term: occurrences(rank) for term, rank in zip(wanted, ranks, strict=True) if rank > 0}
