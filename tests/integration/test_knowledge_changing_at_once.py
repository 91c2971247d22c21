"""The model changes, the index is read anew, files come in, all at once, in a process that is killed again and again.

Searches go on all the while, find what there is to find, by words and by meaning, and nothing that is half there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from placet.knowledge.indexing import indexed_text
from placet.knowledge.models import Chunk, KnowledgeScope
from placet.knowledge.rebuilding import Rebuilding
from placet.knowledge.reembedding import Reembedding
from placet.knowledge.search import Search
from placet.knowledge.store import KnowledgeStore
from placet.knowledge.vectors import literal
from placet.storage import OWNER
from placet.testkit.inline_parser import InlineParser
from placet.testkit.postgres import PostgresRig
from tests.integration.document_house import until
from tests.integration.embedding_world import Files, Letters, late, server_of_its_own
from tests.integration.knowledge_world import add_base, add_document

pytestmark = [pytest.mark.spec("K1", "K2"), pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS, KILLS, STEPS, LATE = 12, 3, 4, 20
READER = KnowledgeScope("t", "rita", frozenset({"employee"}))
OLD, NEW = Letters("old", 20), Letters("new", 30)


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresRig]:
    """Twelve documents with vectors of the old model, which serves."""
    async with server_of_its_own() as rig:
        rig.originals = Files(tmp_path_factory.mktemp("originals"))
        store = rig.knowledge(OLD)
        await add_base(store, "t")
        for number in range(DOCUMENTS):
            await add_document(store, "t", f"doc-{number}", f"House {number}: {'abc'[number % 3] * 9}.")
        await Reembedding(rig.database(), OLD, "first").ask_for()
        yield rig


async def _rows(rig: PostgresRig, statement: str) -> list[Any]:
    async with rig.database(OWNER).transaction() as connection:
        result = await connection.execute(text(statement))
        return list(result.all()) if result.returns_rows else []


async def _look(rig: PostgresRig, search: Search) -> None:
    """What was published before the search began is found: all of it, by words and by meaning."""
    published = "SELECT document_id FROM knowledge.documents WHERE published_version IS NOT NULL"
    before = {row.document_id for row in await _rows(rig, published)}
    hits = await search.find(READER, "house late ccccccccc", 50)
    assert before <= {hit.document_id for hit in hits}
    assert all(hit.similarity is not None for hit in hits), "none without a meaning"
    assert len({hit.chunk_id for hit in hits}) == len(hits)
    best = await search.find(READER, "ccccccccc", 4)
    assert ["ccccccccc" in hit.body for hit in best] == [True] * 4


async def _work_until_killed(rig: PostgresRig, directory: Path, rebuild_id: str, turn: int) -> None:
    """A process that does everything, searched after each of its steps, killed in the middle of one."""
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.embedding_world", rig.url(), str(directory), rebuild_id),
        str(turn * LATE),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'libs'}"},
    )
    assert worker.stdin is not None
    searches = [Search(rig.database(), own, {"old": OLD, "new": NEW}.get) for own in (OLD, NEW)]
    before = await _done(rig)
    for step in range(STEPS):
        worker.stdin.write(b".")
        await worker.stdin.drain()
        await until(partial(_further, rig, before, step), every_s=0.02)
        for search in searches:
            await _look(rig, search)
    worker.stdin.write(b"...")
    await worker.stdin.drain()
    await _look(rig, searches[turn % 2])
    worker.kill()
    await worker.wait()
    for search in searches:
        await _look(rig, search)
    # As if the dead worker's lease had run out.
    await _rows(rig, "UPDATE knowledge.embedding_models SET leased_until = now()")


async def _done(rig: PostgresRig) -> int:
    """How many steps have been done so far; at least, for some leave more than one trace."""
    counted = (
        "SELECT (SELECT count(*) FROM knowledge.chunk_vectors WHERE model = 'new' AND document_id LIKE 'doc-%')"
        " + (SELECT count(*) FROM knowledge.rebuild_items WHERE state = 'done')"
        " + (SELECT count(*) FROM knowledge.documents WHERE published_version IS NOT NULL) AS n"
    )
    return int((await _rows(rig, counted))[0].n)


async def _further(rig: PostgresRig, before: int, step: int) -> bool | None:
    return await _done(rig) > before + step or None


async def _end(rig: PostgresRig, rebuild_id: str) -> None:
    """Somebody who is not killed brings all of it to its end."""
    store = KnowledgeStore(rig.database(), rig.originals, NEW, InlineParser(), others={"old": OLD}.get)

    async def unheard(_: object) -> None:
        return None

    await Rebuilding(rig.database(), store.indexing).run("t", rebuild_id, unheard)
    for row in await _rows(rig, "SELECT document_id FROM knowledge.documents WHERE document_id LIKE 'late-%'"):
        await add_document(store, "t", row.document_id, late(int(row.document_id.removeprefix("late-"))))
    work = Reembedding(rig.database(), NEW, "last")
    while await work.step():
        pass


async def test_everything_at_once_killed_again_and_again_is_searched_all_the_while_and_whole_in_the_end(
    server: PostgresRig, tmp_path: Path
) -> None:
    rig = server
    originals = rig.originals
    assert isinstance(originals, Files)
    store = rig.knowledge(OLD)
    rebuild = await Rebuilding(rig.database(), store.indexing).start("t", "rebuild-1", "carol")
    assert rebuild.total == DOCUMENTS
    for turn in range(KILLS):
        await _work_until_killed(rig, originals.directory, "rebuild-1", turn)
    await _end(rig, "rebuild-1")
    models = {row.model: row.status for row in await _rows(rig, "SELECT model, status FROM knowledge.embedding_models")}
    assert models == {"old": "retired", "new": "serving"}
    await _look(rig, Search(rig.database(), NEW))
    await _is_whole(rig)


async def _is_whole(rig: PostgresRig) -> None:
    """Every version is read to its end, every chunk there once, with the vector of what it says."""
    assert {row.state for row in await _rows(rig, "SELECT state FROM knowledge.versions")} == {"ready"}
    assert {row.state for row in await _rows(rig, "SELECT state FROM knowledge.rebuild_items")} == {"done"}
    rows = await _rows(
        rig,
        "SELECT v.title, b.chunk_id, b.ordinal, b.section, b.body, e.embedding::text AS embedding, t.published"
        " FROM knowledge.versions v JOIN knowledge.chunk_bodies b USING (tenant, document_id, version)"
        " JOIN knowledge.chunk_terms t USING (tenant, chunk_id)"
        " LEFT JOIN knowledge.chunk_vectors e ON e.tenant = b.tenant AND e.chunk_id = b.chunk_id AND e.model = 'new'",
    )
    (late_ones,) = await _rows(rig, "SELECT count(*) AS n FROM knowledge.documents WHERE document_id LIKE 'late-%'")
    assert late_ones.n >= KILLS
    assert len(rows) == DOCUMENTS + late_ones.n
    (single,) = await _rows(rig, "SELECT sum(chunk_count) AS chunks FROM knowledge.versions")
    assert single.chunks == len(rows)
    for row in rows:
        said = indexed_text(row.title, Chunk(row.chunk_id, row.ordinal, row.body, section=row.section))
        (expected,) = await NEW.embed([said])
        found = [float(one) for one in row.embedding.strip("[]").split(",")]
        assert found == pytest.approx(expected, abs=1e-6), literal(expected)
        assert row.published
