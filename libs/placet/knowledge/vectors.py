"""Nearest chunks by meaning, inside a scope.

Few readable chunks are compared as they are. More are compared by sketch (signs of dimensions, kept in the index of the
scope), and the best of these by their whole vectors: 0.98 of the true ten nearest of 20,000 passages with the offline
embedder. Only who reads most of a large tenant is answered from the graph index of all sketches, which walks on until
enough readable chunks are found (0.97 of the same): it is fast there and slow elsewhere, and only there does the work
depend on chunks of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from placet.knowledge.ports import Answer, Pipeline
from placet.knowledge.scope import ReadableScope

EXACT_CHUNKS = 2_000
GRAPH_FROM_CHUNKS = 24_000  # where walking the graph begins to take less time than comparing every sketch
SKETCHED = 150  # so many by sketch for each comparison of whole vectors
SKETCH_BITS = 512
BOUNDED = 2_000  # so many tell how near the nearest sketches are at least

# For the transaction that searches: the graph is walked until enough visible chunks are found. Plans are made once, for
# all values: the statements leave the planner one way, so that nothing follows from what it knows of others' chunks.
SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_memoize": "off",  # would copy each whole vector to meet no chunk a second time
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": str(SKETCHED),
}

# Scope by scope, and what was asked in a select of its own: else it would be read again for every row.
_IN_SCOPE = """
unnest(CAST(:keys AS text[])) AS key, LATERAL (
    SELECT chunk_id, {column} FROM knowledge.chunk_vectors
    WHERE tenant = :tenant AND model = :model AND published AND scope_key = key OFFSET 0) readable
"""
_DISTANCE = "embedding <=> (SELECT CAST(:vector AS vector))"
_EXACT = text(f"""
SELECT chunk_id, {_DISTANCE} AS distance FROM {_IN_SCOPE.format(column="embedding")}
ORDER BY distance, chunk_id LIMIT :limit
""")  # noqa: S608 (constants only)

_OF_THE_NEAR = f"""
WITH near AS MATERIALIZED (%s LIMIT :sketched)
SELECT v.chunk_id, v.{_DISTANCE} AS distance
FROM near JOIN knowledge.chunk_vectors v ON v.tenant = :tenant AND v.model = :model AND v.chunk_id = near.chunk_id
ORDER BY distance, v.chunk_id LIMIT :limit
"""  # noqa: S608
_BY_SKETCH = "sketch <~> (SELECT CAST(CAST(:sketch AS text) AS bit(512)))"
_SKETCHES = _IN_SCOPE.format(column="sketch")
# The nearest of all are as near as the nearest of any part of them: what is farther need not be sorted. Fewer than
# `sketched` in the part is all there are, and then the farthest of them bounds nothing.
_BOUND = f"""
SELECT max(distance) FROM (
    SELECT {_BY_SKETCH} AS distance FROM (SELECT sketch FROM {_SKETCHES} LIMIT {BOUNDED}) part
    ORDER BY distance LIMIT :sketched) nearest_of_part
"""  # noqa: S608
_SKETCHED = text(
    _OF_THE_NEAR % f"SELECT chunk_id FROM {_SKETCHES} WHERE {_BY_SKETCH} <= ({_BOUND}) ORDER BY {_BY_SKETCH}, chunk_id"  # noqa: S608
)
# The walk has no condition to be planned by; what it meets is let through or not.
_GRAPH = text(
    _OF_THE_NEAR
    % f"""
    SELECT chunk_id FROM (
        SELECT tenant, model, scope_key, chunk_id FROM knowledge.chunk_vectors
        WHERE published ORDER BY {_BY_SKETCH} OFFSET 0) met
    WHERE tenant = :tenant AND model = :model AND scope_key = ANY(CAST(:keys AS text[]))"""  # noqa: S608
)


def literal(vector: Sequence[float]) -> str:
    """A pgvector literal; nine significant digits keep a 4-byte float exactly."""
    return "[" + ",".join(f"{value:.9g}" for value in vector) + "]"


def sketch(vector: Sequence[float]) -> str:
    """The signs of the first dimensions, as the table keeps them of every chunk."""
    return "".join("1" if value > 0 else "0" for value in vector[:SKETCH_BITS]).ljust(SKETCH_BITS, "0")


async def ask(
    pipeline: Pipeline, readable: ReadableScope, *, model: str, vector: Sequence[float], limit: int
) -> Answer:
    """Send for the nearest chunks. A narrow scope gets its full `limit`. The transaction carries `SETTINGS`."""
    parameters: dict[str, object] = {
        "tenant": readable.tenant,
        "model": model,
        "keys": list(readable.keys),
        "vector": literal(vector),
        "limit": limit,
    }
    statement = _EXACT
    if readable.chunks > EXACT_CHUNKS:
        statement = _GRAPH if _is_most(readable) else _SKETCHED
        parameters |= {"sketch": sketch(vector), "sketched": SKETCHED}
    return await pipeline.send(statement, parameters)


async def similarities(nearest: Answer) -> dict[str, float]:
    """Chunk ids with their similarity, nearest first."""
    return {row.chunk_id: round(1.0 - row.distance, 4) for row in await nearest.rows()}


def _is_most(readable: ReadableScope) -> bool:
    """Whether the graph, which holds the chunks of all tenants, is met with readable ones soon enough.

    The walk takes the longer the fewer of all chunks are readable, comparing sketches the longer the more they are.
    """
    return readable.mostly and readable.chunks**2 >= GRAPH_FROM_CHUNKS * max(readable.chunks, readable.chunks_of_all)
