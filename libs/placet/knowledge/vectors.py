"""Nearest chunks by meaning, inside a scope.

Few readable chunks are compared as they are. More are compared by sketch (signs of dimensions, kept in the index of the
scope), and the best of these by their whole vectors: measured with the offline embedder, 0.98 to 1.00 of the true ten
nearest. Only who reads most of a large tenant is answered from the graph index, which walks on until enough readable
chunks are found: it is fast there and lossy elsewhere, and only there does the work depend on chunks of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.scope import ReadableScope

EXACT_CHUNKS = 2_000
GRAPH_FROM_CHUNKS = 20_000
SKETCHED = 150  # so many by sketch for each comparison of whole vectors
SKETCH_BITS = 512

# For the transaction that searches: the graph is walked until enough visible chunks are found, and a plan is made for
# the values at hand (with one for all values the planner takes the graph, or the scope, where the other is right).
SETTINGS = {
    "plan_cache_mode": "force_custom_plan",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": str(SKETCHED),
}

_READABLE = "tenant = :tenant AND model = :model AND published AND scope_key = ANY(CAST(:keys AS text[]))"

_EXACT = text(f"""
SELECT chunk_id, embedding <=> CAST(:vector AS vector) AS distance
FROM knowledge.chunk_vectors WHERE {_READABLE}
ORDER BY distance, chunk_id LIMIT :limit
""")  # noqa: S608 (constants only)

_BY_SKETCH = """
WITH near AS MATERIALIZED (
    SELECT chunk_id FROM knowledge.chunk_vectors WHERE {readable}
    ORDER BY {order} LIMIT :sketched
)
SELECT v.chunk_id, v.embedding <=> CAST(:vector AS vector) AS distance
FROM near JOIN knowledge.chunk_vectors v ON v.tenant = :tenant AND v.model = :model AND v.chunk_id = near.chunk_id
ORDER BY distance, v.chunk_id LIMIT :limit
"""
_DISTANCE = "sketch <~> CAST(CAST(:sketch AS text) AS bit(512))"
# The sum keeps the graph index away: it would stop at what is near, not at what is near and readable.
_SKETCHED = text(_BY_SKETCH.format(readable=_READABLE, order=f"({_DISTANCE}) + 0, chunk_id"))
_GRAPH = text(_BY_SKETCH.format(readable=_READABLE, order=_DISTANCE))


def literal(vector: Sequence[float]) -> str:
    """A pgvector literal; nine significant digits keep a 4-byte float exactly."""
    return "[" + ",".join(f"{value:.9g}" for value in vector) + "]"


def sketch(vector: Sequence[float]) -> str:
    """The signs of the first dimensions, as the table keeps them of every chunk."""
    return "".join("1" if value > 0 else "0" for value in vector[:SKETCH_BITS]).ljust(SKETCH_BITS, "0")


async def nearest(
    connection: AsyncConnection, readable: ReadableScope, *, model: str, vector: Sequence[float], limit: int
) -> dict[str, float]:
    """Chunk ids with their similarity, nearest first. A narrow scope gets its full `limit`.

    The transaction carries `SETTINGS`.
    """
    parameters: dict[str, object] = {
        "tenant": readable.tenant,
        "model": model,
        "keys": list(readable.keys),
        "vector": literal(vector),
        "limit": limit,
    }
    statement = _EXACT
    if readable.chunks > EXACT_CHUNKS:
        statement = _GRAPH if readable.mostly and readable.chunks >= GRAPH_FROM_CHUNKS else _SKETCHED
        parameters |= {"sketch": sketch(vector), "sketched": SKETCHED}
    rows = (await connection.execute(statement, parameters)).all()
    return {row.chunk_id: round(1.0 - row.distance, 4) for row in rows}
