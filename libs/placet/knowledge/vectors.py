"""Nearest chunks by meaning, inside a scope."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.embedders import USE_MODEL
from placet.knowledge.scope import ReadableScope

# Exact comparison costs time per visible chunk, the approximate index costs recall per invisible one.
APPROXIMATE_FROM_CHUNKS = 10_000
APPROXIMATE_FROM_SHARE = 0.5

_PREDICATE = "tenant = :tenant AND model = :model AND published AND scope_key = ANY(CAST(:keys AS text[]))"

_EXACT = text(f"""
SELECT chunk_id, embedding <=> CAST(:vector AS vector) AS distance
FROM knowledge.chunk_vectors WHERE {_PREDICATE}
ORDER BY distance, chunk_id LIMIT :limit
""")  # noqa: S608 (constants only)

# The model stands in the text, not in a parameter: only then can the planner prove that the partial index applies.
_APPROXIMATE = {
    model: text(f"""
    SELECT chunk_id, CAST(embedding AS vector({dimensions})) <=> CAST(:vector AS vector({dimensions})) AS distance
    FROM knowledge.chunk_vectors WHERE {_PREDICATE} AND model = '{model}'
    ORDER BY distance LIMIT :limit
    """)  # noqa: S608 (constants only)
    for model, dimensions in {USE_MODEL: 512}.items()  # models with an HNSW index; the migrations create it
}

_TOTAL = text("SELECT coalesce(sum(chunk_count), 0) FROM knowledge.versions WHERE status = 'published'")


def literal(vector: Sequence[float]) -> str:
    """A pgvector literal; nine significant digits keep a 4-byte float exactly."""
    return "[" + ",".join(f"{value:.9g}" for value in vector) + "]"


async def nearest(
    connection: AsyncConnection,
    tenant: str,
    readable: ReadableScope,
    *,
    model: str,
    vector: Sequence[float],
    limit: int,
) -> dict[str, float]:
    """Chunk ids with their similarity, nearest first. A narrow scope is compared exactly: it gets its full `limit`."""
    parameters = {
        "tenant": tenant,
        "model": model,
        "keys": list(readable.keys),
        "vector": literal(vector),
        "limit": limit,
    }
    statement = _EXACT
    if await _mostly_visible(connection, readable, model):
        # The scan goes on until enough visible chunks are found, instead of filtering the first few.
        await connection.execute(text("SET LOCAL hnsw.iterative_scan = relaxed_order"))
        statement = _APPROXIMATE[model]
    rows = (await connection.execute(statement, parameters)).all()
    return {row.chunk_id: round(1.0 - row.distance, 4) for row in rows}


async def _mostly_visible(connection: AsyncConnection, readable: ReadableScope, model: str) -> bool:
    if model not in _APPROXIMATE or readable.chunks < APPROXIMATE_FROM_CHUNKS:
        return False
    total = int((await connection.execute(_TOTAL)).scalar_one())
    return readable.chunks >= APPROXIMATE_FROM_SHARE * total
