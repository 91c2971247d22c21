"""Fills the tables by binary COPY: as fast as the server takes rows, whatever parsing and embedding would cost."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import psycopg

from tests.benchmarks.search.corpus import BASES, WORDS_PER_CHUNK, Corpus, Place

MODEL = "given"
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_TRUE, _ONE = b"\x01", struct.pack("!i", 1)

# Building a text or graph index at once takes a fraction of what adding rows one by one takes.
_INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = 'knowledge' AND indexname IN ('chunk_words', 'chunk_words_sampled', 'chunk_vectors_near')
"""


def role_of(base: int) -> list[str]:
    """Who reads a base: a few, a tenth of the chunks' readers, everybody."""
    return ["everything"] + (["tenth"] if base < 10 else []) + (["few"] if base == 0 else [])


async def fill(url: str, tenant: str, corpus: Corpus) -> None:
    """`tenant` with `corpus`, published. `url` is an administrator's: rows go round the wall."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("SET maintenance_work_mem = '512MB'")
        indexes = await (await connection.execute(_INDEXES)).fetchall()
        for name, _ in indexes:
            await connection.execute(f"DROP INDEX knowledge.{name}")
        await _rows(connection, tenant, corpus)
        for _, definition in indexes:
            await connection.execute(definition)
        for table in ("bases", "documents", "versions", "scope_totals", *_TABLES):
            await connection.execute(f"VACUUM (ANALYZE) knowledge.{table}")


async def _rows(connection: psycopg.AsyncConnection, tenant: str, corpus: Corpus) -> None:
    bases = [(tenant, f"kb-{base}", f"Base {base}", role_of(base)) for base in range(BASES)]
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO knowledge.bases (tenant, base_id, title, roles) VALUES (%s, %s, %s, %s)", bases
        )
        await _documents(cursor, tenant, corpus)
        for table, columns in _TABLES.items():
            fields = _FIELDS[table]
            rows = ((tenant.encode(), *(field for field in fields(corpus, place))) for place in corpus.places())
            await _copy(cursor, f"COPY knowledge.{table} (tenant, {columns}) FROM STDIN (FORMAT BINARY)", rows)


async def _documents(cursor: psycopg.AsyncCursor, tenant: str, corpus: Corpus) -> None:
    counts = Counter((place.base, place.document) for place in corpus.places())
    names = [(tenant, f"doc-{document}", f"kb-{base}", f"Document {document}") for base, document in counts]
    await cursor.executemany(
        "INSERT INTO knowledge.documents (tenant, document_id, base_id, title) VALUES (%s, %s, %s, %s)", names
    )
    versions = [
        (tenant, f"doc-{document}", f"Document {document}", count, count * WORDS_PER_CHUNK)
        for (_, document), count in counts.items()
    ]
    await cursor.executemany(
        "INSERT INTO knowledge.versions (tenant, document_id, title, version, status, filename, media_type,"
        " original_key, sha256, size, chunk_count, term_count, created_by)"
        " VALUES (%s, %s, %s, 1, 'published', 'a.txt', 'text/plain', '', '', 1, %s, %s, 'bench')",
        versions,
    )
    await cursor.execute("UPDATE knowledge.documents SET published_version = 1 WHERE tenant = %s", (tenant,))


def chunk_id(place: Place) -> bytes:
    return f"doc-{place.document}:v1:chunk-{place.ordinal:02d}".encode()


def _document(place: Place) -> bytes:
    return f"doc-{place.document}".encode()


def _scope(place: Place) -> bytes:
    return f"b:kb-{place.base}".encode()


def _body(corpus: Corpus, place: Place) -> Sequence[bytes]:
    body = " ".join(corpus.words[word] for word in corpus.words_of(place))
    return chunk_id(place), _document(place), _ONE, struct.pack("!i", place.ordinal), body.encode()


def _terms(corpus: Corpus, place: Place) -> Sequence[bytes]:
    count = struct.pack("!i", WORDS_PER_CHUNK)
    return chunk_id(place), _document(place), _ONE, _scope(place), _TRUE, count, _tsvector(corpus, place)


def _tsvector(corpus: Corpus, place: Place) -> bytes:
    positions: dict[bytes, list[int]] = {}
    for position, word in enumerate(corpus.words_of(place), start=1):
        positions.setdefault(corpus.terms[word].encode(), []).append(position)
    parts = [struct.pack("!i", len(positions))]
    for term, at in positions.items():
        parts.append(term + b"\0" + struct.pack(f"!H{len(at)}H", len(at), *at))
    return b"".join(parts)


def _vector(corpus: Corpus, place: Place) -> Sequence[bytes]:
    vector = corpus.vector_of(place)
    packed = struct.pack("!HH", len(vector), 0) + vector.astype(np.dtype(">f4")).tobytes()
    return MODEL.encode(), chunk_id(place), _document(place), _ONE, _scope(place), _TRUE, packed


_TABLES = {
    "chunk_bodies": "chunk_id, document_id, version, ordinal, body",
    "chunk_terms": "chunk_id, document_id, version, scope_key, published, term_count, terms",
    "chunk_vectors": "model, chunk_id, document_id, version, scope_key, published, embedding",
}
_FIELDS = {"chunk_bodies": _body, "chunk_terms": _terms, "chunk_vectors": _vector}


async def _copy(cursor: psycopg.AsyncCursor, statement: str, rows: Iterator[Sequence[bytes]]) -> None:
    async with cursor.copy(statement) as copy:
        held = bytearray(_HEADER)
        for row in rows:
            held += struct.pack("!h", len(row)) + b"".join(struct.pack("!i", len(field)) + field for field in row)
            if len(held) > 1_000_000:
                await copy.write(bytes(held))
                held.clear()
        await copy.write(bytes(held) + struct.pack("!h", -1))
