"""The rows of a chunk: its text behind the wall, its words and its meanings in the tables that are searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.models import Chunk
from placet.knowledge.tokens import tsvector
from placet.knowledge.vectors import literal

# By model, one vector for each chunk.
Vectors = Mapping[str, Sequence[Sequence[float]]]

_ADD_BODY = text("""
INSERT INTO knowledge.chunk_bodies (tenant, chunk_id, document_id, version, ordinal, page, section, body)
VALUES (:tenant, :chunk_id, :document_id, :version, :ordinal, :page, :section, :body)
""")

_ADD_TERMS = text("""
INSERT INTO knowledge.chunk_terms (tenant, chunk_id, document_id, version, scope_key, published, term_count, terms)
VALUES (:tenant, :chunk_id, :document_id, :version, :scope_key, :published, :term_count, CAST(:terms AS tsvector))
""")

_ADD_VECTOR = text("""
INSERT INTO knowledge.chunk_vectors (tenant, model, chunk_id, document_id, version, scope_key, published, embedding)
VALUES (:tenant, :model, :chunk_id, :document_id, :version, :scope_key, :published, CAST(:embedding AS vector))
""")


async def add_chunks(
    connection: AsyncConnection,
    where: Mapping[str, Any],
    chunks: Sequence[Chunk],
    found: Sequence[list[str]],
    vectors: Vectors,
) -> None:
    """`where` names the version and says who sees it (`scope_key`, `published`); `found` are the chunks' terms."""
    rows = [{**where, **_row(chunk)} for chunk in chunks]
    await connection.execute(_ADD_BODY, rows)
    counted = [{"term_count": len(one), "terms": tsvector(one)} for one in found]
    await connection.execute(_ADD_TERMS, [row | more for row, more in zip(rows, counted, strict=True)])
    for model, meant in vectors.items():
        placed = [{"model": model, "embedding": literal(vector)} for vector in meant]
        await connection.execute(_ADD_VECTOR, [row | more for row, more in zip(rows, placed, strict=True)])


def _row(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.chunk_id,
        "ordinal": chunk.ordinal,
        "page": chunk.page,
        "section": chunk.section,
        "body": chunk.body,
    }
