"""Candidates by words, inside a scope, with what BM25 needs to rank them.

The text index holds each word together with the scope that it stands in, so a search asks it for words of readable
scopes only: chunks of others are not visited and cost no time that could be measured, whatever they say. Who reads all
of a tenant has nobody's chunks to avoid. The one exception is who reads more than `KEYS_IN_INDEX` scopes and not all:
there, words of the whole tenant are looked up, and the scope drops the rows that are not theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from sqlalchemy import TextClause, text

from placet.knowledge.ports import Pipeline
from placet.knowledge.ranking import K1, B, Candidate, Corpus
from placet.knowledge.scope import ReadableScope
from placet.knowledge.tokens import quoted

CANDIDATES = 100
EXACT_CHUNKS = 2_000  # up to here every chunk that holds a word is ranked and counted
RANKED_ROWS = 400  # above it this many of each kind that is looked at
# Each is one more look into the index for each word: 300 scopes and a long question take 37 ms, by the tenant 15. But
# there a word that stands in 2,000 hidden chunks takes twice to five times as long as one that stands nowhere.
KEYS_IN_INDEX = 512
SAMPLE = 64  # every so many-th chunk is in the sample; the migration says which
_RARE = 4  # seen at most so often in the sample: worth counting

# The index's own expression, to the letter, and how its entries are named.
_WORDS = "knowledge.words_within(tenant, scope_key, terms)"
_NAMED = "hashtextextended(word, hashtextextended(name, 0))"
_NAMES = "unnest(CAST(:names AS text[])) AS name"
# The tenant as an expression: else an index of whole tenants would be read too, to intersect it with the words found.
# The scopes as a table that is looked up: an array would be gone through for every row.
_READABLE = "tenant || '' = :tenant AND published AND (scope_key IN (SELECT unnest(CAST(:keys AS text[])))) IS TRUE"

_ASKED = f"""
SELECT place, ARRAY(SELECT {_NAMED} FROM {_NAMES}) AS entries
FROM unnest(CAST(:words AS text[])) WITH ORDINALITY AS asked (word, place)
OFFSET 0
"""  # noqa: S608 (constants only)
_HELD = f"SELECT count(*) FROM knowledge.chunk_terms WHERE {_READABLE} AND {_WORDS} && entries"  # noqa: S608

_COUNTS = text(f"SELECT place, ({_HELD}) AS chunks FROM ({_ASKED}) asked")  # noqa: S608

# Rare words are counted, the others are multiplied up from the sample: there a tenth more or less does not matter.
_ESTIMATES = text(f"""
SELECT place, CASE WHEN seen > {_RARE} THEN seen * {SAMPLE} ELSE ({_HELD}) END AS chunks
FROM (SELECT place, entries, ({_HELD} AND sampled) AS seen FROM ({_ASKED}) asked OFFSET 0) sampled_counts
""")  # noqa: S608

# What `ts_rank` gives for one term that occurs n times: 0.1 * (1 + 1/4 + ... + 1/n²) / 1.64493406685. Turning it round
# gives the count exactly (the steps are wider than a 4-byte float's precision up to n = 255, where positions end), in a
# ninth of the time that unpacking the vector takes.
_RANKS = [0.1 * total / 1.64493406685 for total in accumulate(1 / (n * n) for n in range(1, 256))]
STEPS = "{" + ",".join(f"{at:.9g}" for at in [_RANKS[0] / 2, *((a + b) / 2 for a, b in pairwise(_RANKS))]) + "}"
OCCURRENCES = "width_bucket(ts_rank(terms, (SELECT CAST(%s AS tsquery))), (SELECT CAST(:steps AS real[])))"


@dataclass(frozen=True, slots=True)
class Selection:
    """Chunks that are looked at: with all of `every` and any of `some` (one may be empty), without those of `but_not`.

    `but_not` is a tsquery.
    """

    every: tuple[str, ...] = ()
    some: tuple[str, ...] = ()
    but_not: str = ""

    @property
    def shape(self) -> tuple[bool, bool, bool]:
        return bool(self.every), bool(self.some), bool(self.but_not)


async def corpus_of(pipeline: Pipeline, readable: ReadableScope, wanted: list[str]) -> Corpus:
    """In how many readable chunks each term occurs."""
    statement = _COUNTS if readable.chunks <= EXACT_CHUNKS else _ESTIMATES
    rows = await (await pipeline.send(statement, _where(readable) | {"words": wanted})).rows()
    counts = {wanted[row.place - 1]: int(row.chunks) for row in rows}
    return Corpus(chunks=readable.chunks, term_total=readable.term_total, document_counts=counts)


async def candidates_of(
    pipeline: Pipeline, readable: ReadableScope, corpus: Corpus, wanted: list[str]
) -> list[Candidate]:
    """The readable chunks that rank best by words, with how often each term occurs in them."""
    found = [term for term in wanted if corpus.document_counts.get(term)] or wanted[:1]
    if not found:
        return []
    exact = readable.chunks <= EXACT_CHUNKS
    chosen = [Selection(some=tuple(found))] if exact else selections(found, corpus, RANKED_ROWS)
    parameters = _where(readable) | {
        "steps": STEPS,
        "rows": EXACT_CHUNKS if exact else RANKED_ROWS,
        "limit": CANDIDATES,
        "norm": K1 * (1 - B),
        "slope": K1 * B / corpus.average,
    }
    parameters |= {f"e{index}": list(selection.every) for index, selection in enumerate(chosen) if selection.every}
    parameters |= {f"s{index}": list(selection.some) for index, selection in enumerate(chosen) if selection.some}
    parameters |= {f"n{index}": selection.but_not for index, selection in enumerate(chosen) if selection.but_not}
    parameters |= {f"t{index}": quoted(term) for index, term in enumerate(found)}
    parameters |= {f"w{index}": corpus.weight(term) for index, term in enumerate(found)}
    statement = _ranked(len(found), tuple(selection.shape for selection in chosen))
    rows = await (await pipeline.send(statement, parameters)).rows()
    return [
        Candidate(row.chunk_id, row.term_count, {t: n for t, n in zip(found, row.counts, strict=True) if n})
        for row in rows
    ]


def selections(found: list[str], corpus: Corpus, most: int) -> list[Selection]:
    """Selections without overlap whose chunks are worth ranking when not all can be.

    Chunks with any of the rarest words, as many words as `most` chunks allow; of the other words, chunks with the
    rarest and one more (a fifth of the best ten by BM25 of 200,000 chunks are found by these alone), and chunks with
    all but that. Last, where the rarest words stand in few, chunks with nothing but the next one.
    """
    by_rarity = sorted(found, key=lambda term: (corpus.document_counts[term], term))
    together = list(accumulate(corpus.document_counts[term] for term in by_rarity))
    rare = tuple(term for term, total in zip(by_rarity, together, strict=True) if total <= most)
    common = tuple(by_rarity[len(rare) :])
    chosen = [Selection(some=rare)] if rare else []
    if not common:
        return chosen
    first, others = common[:1], common[1:]
    if others:
        chosen.append(Selection(every=first, some=others, but_not=_any(rare)))
    if len(others) > 1:
        chosen.append(Selection(every=others, but_not=_any(rare + first)))
    if sum(corpus.document_counts[term] for term in rare) < CANDIDATES:
        chosen.append(Selection(every=first, but_not=_any(rare + others)))
    return chosen


@lru_cache(maxsize=256)
def _ranked(terms: int, shapes: Sequence[tuple[bool, bool, bool]]) -> TextClause:
    """The statement for so many terms and selections: ranked by BM25 on the server, so that only the best travel."""
    selected = " UNION ALL ".join(f"({_selected(index, *shape)} LIMIT :rows)" for index, shape in enumerate(shapes))
    counted = ", ".join(f"{OCCURRENCES % f':t{index}'} AS c{index}" for index in range(terms))
    norm = "(:norm + :slope * term_count)"
    score = " + ".join(f":w{index} * (1 - {norm} / (c{index} + {norm}))" for index in range(terms))
    return text(
        f"SELECT chunk_id, term_count, ARRAY[{', '.join(f'c{index}' for index in range(terms))}] AS counts"  # noqa: S608
        f" FROM (SELECT chunk_id, term_count, {counted} FROM ({selected}) selected OFFSET 0) counted"
        f" ORDER BY {score} DESC, chunk_id LIMIT :limit"
    )


def _selected(index: int, every: bool, some: bool, but_not: bool) -> str:
    """One selection. Words that stand together stand in one scope: scopes are asked one by one then."""
    rows = f"SELECT chunk_id, term_count, terms FROM knowledge.chunk_terms WHERE {_READABLE}"  # noqa: S608
    rows += f" AND NOT terms @@ (SELECT CAST(:n{index} AS tsquery))" if but_not else ""
    if not every:
        return f"{rows} AND {_WORDS} && {_entries(f's{index}', _NAMES)}"
    rows += f" AND {_WORDS} @> {_entries(f'e{index}')}"
    rows += f" AND {_WORDS} && {_entries(f's{index}')}" if some else ""
    return f"SELECT found.* FROM {_NAMES}, LATERAL ({rows}) found"  # noqa: S608


def _entries(words: str, *names: str) -> str:
    """The index's entries of the words in a parameter, within `names` or the `name` at hand."""
    return f"ARRAY(SELECT {_NAMED} FROM {', '.join((f'unnest(CAST(:{words} AS text[])) AS word', *names))})"  # noqa: S608


def _where(readable: ReadableScope) -> dict[str, object]:
    """The scope, and the names under which the index knows it: the tenant's where its own would be too many."""
    by_tenant = readable.everything or len(readable.keys) > KEYS_IN_INDEX
    # Nothing readable is one scope that no chunk has: the same work, and nothing found.
    names = [readable.tenant] if by_tenant else [f"{readable.tenant}/{key}" for key in readable.keys or ("",)]
    return {"tenant": readable.tenant, "keys": list(readable.keys), "names": names}


def _any(terms: Sequence[str]) -> str:
    return " | ".join(map(quoted, terms))
