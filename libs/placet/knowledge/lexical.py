"""Candidates by words, inside a scope, with what BM25 needs to rank them.

The scope is part of what the text index is asked: the rows of unreadable chunks are not visited, so they cost no time
that could be measured, whatever they say. The one exception is who reads at least half of a tenant (or more than
`KEYS_IN_INDEX` scopes): there, rows are visited first and the scope drops what is not theirs.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate, pairwise

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.ranking import K1, B, Candidate, Corpus
from placet.knowledge.scope import ReadableScope
from placet.knowledge.tokens import quoted

CANDIDATES = 100
EXACT_CHUNKS = 2_000  # up to here every chunk that holds a word is ranked and counted
RANKED_ROWS = 400  # above it this many of each kind that is looked at
KEYS_IN_INDEX = 24  # each costs a comparison per chunk found: 100 take ten times as long as none
SAMPLE = 64  # every so many-th chunk is in the sample; the migration says which
_RARE = 4  # seen at most so often in the sample: worth counting

# The text index's own words: `searched_by` of the migration, to the letter.
_SEARCHED = "(terms || array_to_tsvector(ARRAY['#' || tenant, '#' || tenant || '/' || scope_key]))"
_READABLE = "tenant = :tenant AND published AND scope_key = ANY(CAST(:keys AS text[]))"

_COUNTS = text(f"""
SELECT place, (SELECT count(*) FROM knowledge.chunk_terms
               WHERE {_READABLE} AND {_SEARCHED} @@ CAST(query AS tsquery)) AS chunks
FROM unnest(CAST(:queries AS text[])) WITH ORDINALITY AS asked (query, place)
""")  # noqa: S608 (constants only)

# Rare words are counted, the others are multiplied up from the sample: there a tenth more or less does not matter.
_ESTIMATES = text(f"""
SELECT place, CASE WHEN seen > {_RARE} THEN seen * {SAMPLE} ELSE (
    SELECT count(*) FROM knowledge.chunk_terms
    WHERE {_READABLE} AND {_SEARCHED} @@ CAST(query AS tsquery)) END AS chunks
FROM (
    SELECT place, query, (
        SELECT count(*) FROM knowledge.chunk_terms
        WHERE {_READABLE} AND sampled AND {_SEARCHED} @@ CAST(query AS tsquery)) AS seen
    FROM unnest(CAST(:queries AS text[])) WITH ORDINALITY AS asked (query, place)
    OFFSET 0
) sampled_counts
""")  # noqa: S608 (constants only)

# What `ts_rank` gives for one term that occurs n times: 0.1 * (1 + 1/4 + ... + 1/n²) / 1.64493406685. Turning it round
# gives the count exactly (the steps are wider than a 4-byte float's precision up to n = 255, where positions end), in a
# ninth of the time that unpacking the vector takes.
_RANKS = [0.1 * total / 1.64493406685 for total in accumulate(1 / (n * n) for n in range(1, 256))]
# The server does the same for its own order, up to a count from which BM25 hardly moves.
_STEPS = [_RANKS[0] / 2, *((low + high) / 2 for low, high in pairwise(_RANKS))]
_OCCURRENCES = (
    f"width_bucket(ts_rank(terms, CAST(:t%d AS tsquery)), CAST('{{{','.join(map(str, _STEPS))}}}' AS real[]))"
)


def occurrences(rank: float) -> int:
    """How often a term occurs, from `ts_rank` of that term alone; 0 for 0."""
    if rank <= 0:
        return 0
    above = bisect_left(_RANKS, rank)
    nearest = min(
        (index for index in (above - 1, above) if 0 <= index < len(_RANKS)), key=lambda i: abs(_RANKS[i] - rank)
    )
    return nearest + 1


async def corpus_of(connection: AsyncConnection, readable: ReadableScope, wanted: list[str]) -> Corpus:
    """In how many readable chunks each term occurs."""
    within = _within(readable)
    statement = _COUNTS if readable.chunks <= EXACT_CHUNKS else _ESTIMATES
    queries = [f"{within} & {quoted(term)}" for term in wanted]
    parameters = {"tenant": readable.tenant, "keys": list(readable.keys), "queries": queries}
    rows = (await connection.execute(statement, parameters)).all()
    counts = {wanted[row.place - 1]: int(row.chunks) for row in rows}
    return Corpus(chunks=readable.chunks, term_total=readable.term_total, document_counts=counts)


async def candidates_of(
    connection: AsyncConnection, readable: ReadableScope, corpus: Corpus, wanted: list[str]
) -> list[Candidate]:
    """The readable chunks that rank best by words, with how often each term occurs in them."""
    found = [term for term in wanted if corpus.document_counts.get(term)] or wanted[:1]
    if not found:
        return []
    within = _within(readable)
    exact = readable.chunks <= EXACT_CHUNKS
    chosen = [_any(found)] if exact else selections(found, corpus, RANKED_ROWS)
    parameters: dict[str, object] = {
        "tenant": readable.tenant,
        "keys": list(readable.keys),
        "rows": EXACT_CHUNKS if exact else RANKED_ROWS,
        "limit": CANDIDATES,
        "norm": K1 * (1 - B),
        "slope": K1 * B / corpus.average,
    }
    parameters |= {f"s{index}": f"{within} & ({query})" for index, query in enumerate(chosen)}
    parameters |= {f"t{index}": quoted(term) for index, term in enumerate(found)}
    parameters |= {f"w{index}": corpus.weight(term) for index, term in enumerate(found)}
    rows = (await connection.execute(_ranked(len(found), len(chosen)), parameters)).all()
    return [Candidate(row.chunk_id, row.term_count, _counts(found, row.ranks)) for row in rows]


def selections(found: list[str], corpus: Corpus, most: int) -> list[str]:
    """Queries without overlap whose chunks are worth ranking when not all can be.

    Chunks with any of the rarest words, as many words as `most` chunks allow, and chunks with all of the others. Where
    even the rarest word stands in more: those with all words, then with the two rarest, then with the rarest.
    """
    by_rarity = sorted(found, key=lambda term: (corpus.document_counts[term], term))
    together = list(accumulate(corpus.document_counts[term] for term in by_rarity))
    rare = [term for term, total in zip(by_rarity, together, strict=True) if total <= most]
    common = by_rarity[len(rare) :]
    if not common:
        return [_any(rare)]
    if rare:
        return [_any(rare), f"{_all(common)} & !({_any(rare)})"]
    wide = [_all(common), _all(common[:2]), _all(common[:1])]
    wide = list(dict.fromkeys(wide))
    return [wide[0], *(f"{more} & !({fewer})" for fewer, more in pairwise(wide))]


@lru_cache(maxsize=256)
def _ranked(terms: int, queries: int) -> TextClause:
    """The statement for so many terms and selections: ranked by BM25 on the server, so that only the best travel."""
    selected = " UNION ALL ".join(
        f"(SELECT chunk_id, term_count, terms FROM knowledge.chunk_terms"  # noqa: S608 (constants only)
        f" WHERE {_READABLE} AND {_SEARCHED} @@ CAST(:s{index} AS tsquery) LIMIT :rows)"
        for index in range(queries)
    )
    norm = "(:norm + :slope * term_count)"
    score = " + ".join(f":w{index} * (1 - {norm} / ({_OCCURRENCES % index} + {norm}))" for index in range(terms))
    ranks = ", ".join(f"ts_rank(terms, CAST(:t{index} AS tsquery))" for index in range(terms))
    return text(
        f"SELECT chunk_id, term_count, ARRAY[{ranks}] AS ranks FROM ("  # noqa: S608 (constants only)
        f"SELECT chunk_id, term_count, terms FROM ({selected}) s ORDER BY {score} DESC, chunk_id LIMIT :limit) best"
    )


def _within(readable: ReadableScope) -> str:
    """What stands beside every query: the scopes, or the tenant where naming them costs more than it saves."""
    if readable.mostly or len(readable.keys) > KEYS_IN_INDEX:
        return _literal(f"#{readable.tenant}")
    # Nothing readable is one scope that no chunk has: the same work, and nothing found.
    return "(" + " | ".join(_literal(f"#{readable.tenant}/{key}") for key in readable.keys or ("",)) + ")"


def _literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "''") + "'"


def _any(terms: list[str]) -> str:
    return " | ".join(map(quoted, terms))


def _all(terms: list[str]) -> str:
    return " & ".join(map(quoted, terms))


def _counts(found: list[str], ranks: list[float]) -> dict[str, int]:
    return {term: occurrences(rank) for term, rank in zip(found, ranks, strict=True) if rank > 0}
