"""Reads a version into the index, in steps that a killed process leaves whole.

Every step is one commit that counts the chunks it added by compare-and-set: a worker that takes over goes on behind the
last step, and of two workers on one version each step succeeds for one. Until the last step the version is not
`ready`, cannot be published, and none of its chunks is found by anybody.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge import scope as scopes
from placet.knowledge.chunk_rows import Vectors, add_chunks
from placet.knowledge.chunking import chunks_of
from placet.knowledge.errors import NotFound, ParseError, ParseFailure, too_large
from placet.knowledge.meanings import Meanings, OtherEmbedders, no_others
from placet.knowledge.models import Chunk, Reading
from placet.knowledge.parsed import ParsedDocument
from placet.knowledge.ports import Database, Embedder, FileParser, OriginalStore
from placet.knowledge.tokens import terms

STEP_CHUNKS = 64
UNFINISHED = ("received", "reading", "indexing")

_WHERE = "WHERE tenant = :tenant AND document_id = :document_id AND version = :version"

_VERSION = f"""
SELECT document_id, version, title, filename, original_key, size, state, plan, chunks_done, chunk_count, failure,
       failure_detail
FROM knowledge.versions {_WHERE}
"""  # noqa: S608 (constants only)
_FIND = text(_VERSION)
_LOCK = text(_VERSION + " FOR UPDATE")

_READING = text(f"""
UPDATE knowledge.versions SET touched_at = now(), state = CASE state WHEN 'received' THEN 'reading' ELSE state END
{_WHERE} AND state IN ('received', 'reading', 'indexing')
""")  # noqa: S608

_FAIL = text(f"""
UPDATE knowledge.versions SET state = 'failed', failure = :reason, failure_detail = :detail, touched_at = now(),
    plan = NULL, chunks_done = 0, chunk_count = 0, term_count = 0
{_WHERE} AND state IN ('received', 'reading', 'indexing')
""")  # noqa: S608

_PLAN = text(f"""
UPDATE knowledge.versions SET state = 'indexing', plan = :plan, chunks_done = 0, chunk_count = :chunks, term_count = 0,
    media_type = :media_type, pages = :pages, touched_at = now()
{_WHERE}
""")  # noqa: S608

_STEP = text(f"""
UPDATE knowledge.versions SET chunks_done = chunks_done + :added, term_count = term_count + :terms, touched_at = now(),
    state = CASE WHEN chunks_done + :added = chunk_count THEN 'ready' ELSE 'indexing' END
{_WHERE} AND state = 'indexing' AND plan = :plan AND chunks_done = :expected
""")  # noqa: S608

_DROP = text("SELECT knowledge.drop_unready_chunks(:tenant, :document_id, :version)")

_DROP_FOR_REBUILD = text("SELECT knowledge.drop_chunks_for_rebuild(:tenant, :document_id, :version)")

_RECOUNT = text(f"""
UPDATE knowledge.versions SET chunk_count = :chunks, chunks_done = :chunks, term_count = :terms, plan = :plan
{_WHERE} AND state = 'ready'
""")  # noqa: S608

# Held until the step commits: who may read the document does not change under the chunks that say so.
_DOCUMENT = """
SELECT scope_key, published_version FROM knowledge.documents
WHERE tenant = :tenant AND document_id = :document_id FOR
"""
_WITH_OTHERS = text(_DOCUMENT + "SHARE")
# Chunks that change places must not get vectors meanwhile: of which text, nobody could tell.
_ALONE = text(_DOCUMENT + "UPDATE")

Report = Callable[[Reading], Awaitable[None]]
Where = dict[str, Any]


async def unheard(_: Reading) -> None:
    """For who does not follow the progress."""


@dataclass(frozen=True, slots=True)
class Indexing:
    database: Database
    originals: OriginalStore
    parser: FileParser
    embedder: Embedder
    others: OtherEmbedders = no_others

    async def run(self, tenant: str, document_id: str, version: int, report: Report = unheard) -> Reading:
        """Read the version from its original, or go on where another worker was stopped; what is done stays done.

        A file that cannot be read ends as `failed`, with the reason on the version. Raises NotFound when there is no
        such version, PlacetError when something this needs is away: then calling again goes on.
        """
        where = {"tenant": tenant, "document_id": document_id, "version": version}
        row = await self._row(where)
        if row.state not in UNFINISHED:
            return reading_of(row)
        await self._write(where, _READING)
        await report(Reading(document_id, version, "reading", 0, 0))
        try:
            parsed = await self._parsed(row)
        except ParseError as error:
            return await self.fail(where, error.reason, error.message)
        return await self.index(where, row.title, parsed, report)

    async def index(self, where: Where, title: str, parsed: ParsedDocument, report: Report = unheard) -> Reading:
        """Add the chunks of `parsed` that are not there yet."""
        chunks = await asyncio.to_thread(chunks_of, where["document_id"], where["version"], parsed)
        if not chunks:
            return await self.fail(where, ParseFailure.NO_TEXT, "No text was found in the file.")
        plan = _digest(title, chunks)
        row = await self._start(where, plan, len(chunks), parsed)
        while row.state == "indexing":
            await report(reading_of(row))
            batch = chunks[row.chunks_done : row.chunks_done + STEP_CHUNKS]
            texts = [indexed_text(title, chunk) for chunk in batch]
            vectors = await self._meanings.of(texts)
            found = await asyncio.to_thread(_terms_of, texts)
            await self._step(where | {"plan": plan, "expected": row.chunks_done}, batch, found, vectors)
            row = await self._row(where)
        return reading_of(row)

    async def rebuild(self, where: Where) -> None:
        """Read a `ready` version again; its new chunks take the place of the old ones in one commit.

        Chunks keep their names. Raises ParseError (the old chunks stay), PlacetError when something this needs is away.
        """
        row = await self._row(where)
        parsed = await self._parsed(row)
        chunks = await asyncio.to_thread(chunks_of, where["document_id"], where["version"], parsed)
        texts = [indexed_text(row.title, chunk) for chunk in chunks]
        found = await asyncio.to_thread(_terms_of, texts)
        vectors: dict[str, list[Sequence[float]]] = {}
        for start in range(0, len(texts), STEP_CHUNKS):
            for model, more in (await self._meanings.of(texts[start : start + STEP_CHUNKS])).items():
                vectors.setdefault(model, []).extend(more)
        # A model that came into use, or was away, for a part of them only is left to the embedding in the background.
        complete = {model: every for model, every in vectors.items() if len(every) == len(texts)}
        counts = {"chunks": len(chunks), "terms": sum(map(len, found)), "plan": _digest(row.title, chunks)}
        async with self._transaction(where) as connection:
            document = (await connection.execute(_ALONE, where)).one()
            if (await connection.execute(_RECOUNT, where | counts)).rowcount:
                await connection.execute(_DROP_FOR_REBUILD, where)
                shown = {"scope_key": document.scope_key, "published": document.published_version == where["version"]}
                await add_chunks(connection, where | shown, chunks, found, complete)

    async def fail(self, where: Where, reason: ParseFailure, detail: str) -> Reading:
        """Give the version up; what was indexed of it goes."""
        async with self._transaction(where) as connection:
            row = (await connection.execute(_LOCK, where)).one()
            if row.state in UNFINISHED:
                await connection.execute(_DROP, where)
                await connection.execute(_FAIL, where | {"reason": reason.value, "detail": detail})
        return reading_of(await self._row(where))

    async def _start(self, where: Where, plan: str, chunks: int, parsed: ParsedDocument) -> Any:
        """The version as it is to be gone on with. Steps of another plan (the parser has changed since) are dropped."""
        async with self._transaction(where) as connection:
            row = (await connection.execute(_LOCK, where)).one()
            if row.state in UNFINISHED and row.plan != plan:
                await connection.execute(_DROP, where)
                values = {"plan": plan, "chunks": chunks, "media_type": parsed.media_type, "pages": parsed.pages}
                await connection.execute(_PLAN, where | values)
                row = (await connection.execute(_FIND, where)).one()
        return row

    async def _step(self, where: Where, batch: Sequence[Chunk], found: list[list[str]], vectors: Vectors) -> None:
        """One commit. When another worker has made this step, it has, and nothing is written."""
        async with self._transaction(where) as connection:
            document = (await connection.execute(_WITH_OTHERS, where)).one()
            step = where | {"added": len(batch), "terms": sum(map(len, found))}
            if (await connection.execute(_STEP, step)).rowcount == 0:
                return
            unseen = {"scope_key": document.scope_key, "published": False}
            await add_chunks(connection, where | unseen, batch, found, vectors)

    @property
    def _meanings(self) -> Meanings:
        return Meanings(self.database, self.embedder, self.others)

    async def _row(self, where: Where) -> Any:
        async with self._transaction(where) as connection:
            row = (await connection.execute(_FIND, where)).one_or_none()
        if row is None:
            raise NotFound
        return row

    async def _write(self, where: Where, statement: Any) -> None:
        async with self._transaction(where) as connection:
            await connection.execute(statement, where)

    def _transaction(self, where: Where) -> AbstractAsyncContextManager[AsyncConnection]:
        return self.database.transaction(local=scopes.tenant_settings(where["tenant"]))

    async def _parsed(self, row: Any) -> ParsedDocument:
        """Raises ParseError; for a file that is too large, before any byte of it is in memory."""
        if row.size > self.parser.max_bytes:
            raise too_large(self.parser.max_bytes)
        try:
            data = await self.originals.get(row.original_key)
        except KeyError as error:
            # The version names it, so it was stored: a fault of the store, not of the file.
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The original file cannot be read.") from error
        return await self.parser.parse(row.filename, data)


async def unfinished(database: Database, quiet_s: int, limit: int) -> Sequence[Any]:
    """Versions that nobody has worked on for `quiet_s` seconds, over all tenants."""
    statement = text("""
        SELECT tenant, document_id, version, sha256, size, created_by AS by FROM knowledge.versions
        WHERE state IN ('received', 'reading', 'indexing') AND touched_at < now() - make_interval(secs => :quiet)
        ORDER BY touched_at LIMIT :limit
    """)
    async with database.transaction(read_only=True) as connection:
        return (await connection.execute(statement, {"quiet": quiet_s, "limit": limit})).all()


def reading_of(row: Any) -> Reading:
    """From a row with state, chunks_done, chunk_count, failure and failure_detail."""
    percent = {"ready": 100, "indexing": 10 + 90 * row.chunks_done // max(1, row.chunk_count)}.get(row.state, 0)
    return Reading(
        document_id=row.document_id,
        version=row.version,
        state=row.state,
        percent=percent,
        chunks=row.chunk_count,
        reason=row.failure,
        detail=row.failure_detail,
    )


def indexed_text(title: str, chunk: Chunk) -> str:
    """What is searched: title and section say what a chunk is about even where its sentences do not."""
    return "\n".join(part for part in (title, chunk.section, chunk.body) if part)


def _terms_of(texts: Sequence[str]) -> list[list[str]]:
    return [terms(one) for one in texts]


def _digest(title: str, chunks: Sequence[Chunk]) -> str:
    found = hashlib.sha256(title.encode())
    for chunk in chunks:
        found.update(f"\x00{chunk.ordinal}\x00{chunk.page}\x00{chunk.section}\x00{chunk.body}".encode())
    return found.hexdigest()
