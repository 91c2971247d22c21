"""A change of the embedding model: searched all the while, killed in the middle, complete in the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import text

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge import reembedding
from placet.knowledge.models import Hit, KnowledgeScope
from placet.knowledge.reembedding import Reembedding
from placet.knowledge.search import Search
from placet.knowledge.store import KnowledgeStore
from placet.storage import OWNER
from placet.testkit.postgres import PostgresRig
from tests.integration.embedding_world import Letters, server_of_its_own
from tests.integration.knowledge_world import add_base, add_document

BATCH, DOCUMENTS = 4, 12
READER = KnowledgeScope("t", "rita", frozenset({"employee"}))
ROOT = Path(__file__).resolve().parents[2]


OLD, NEW = Letters("old", 20), Letters("new", 30)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[PostgresRig]:
    async with server_of_its_own() as started:
        yield started


@pytest.fixture
async def rig(server: PostgresRig, monkeypatch: pytest.MonkeyPatch) -> PostgresRig:
    """Twelve documents with vectors of the old model, which serves."""
    monkeypatch.setattr(reembedding, "BATCH", BATCH)
    async with server.database(OWNER).transaction() as connection:
        await connection.execute(text("TRUNCATE knowledge.bases, knowledge.embedding_models CASCADE"))
    store = server.knowledge(OLD)
    await add_base(store, "t")
    for number in range(DOCUMENTS):
        await add_document(store, "t", f"doc-{number}", f"House {number}: {'abc'[number % 3] * 9}.")
    await Reembedding(server.database(), OLD, "first").ask_for()
    return server


def _search(rig: PostgresRig, own: Letters = NEW) -> Search:
    return Search(rig.database(), own, {"old": OLD, "new": NEW}.get)


async def _found(search: Search) -> list[Hit]:
    return await search.find(READER, "ccccccccc", 3)


async def _models(rig: PostgresRig) -> dict[str, str]:
    async with rig.database().transaction(read_only=True) as connection:
        rows = (await connection.execute(text("SELECT model, status FROM knowledge.embedding_models"))).all()
    return {row.model: row.status for row in rows}


async def _vectors(rig: PostgresRig, model: str) -> int:
    statement = text("SELECT count(*) FROM knowledge.chunk_vectors WHERE model = :model")
    async with rig.database().transaction(read_only=True) as connection:
        return int((await connection.execute(statement, {"model": model})).scalar_one())


async def test_change_of_the_model_is_searched_with_the_old_one_until_the_new_one_is_complete(rig: PostgresRig) -> None:
    search, work = _search(rig), Reembedding(rig.database(), NEW, "second")
    await work.ask_for()
    assert await _models(rig) == {"old": "serving", "new": "building"}
    steps, models = 0, {"old": "serving"}
    while models["old"] == "serving":
        hits = await _found(search)
        assert len(hits) == 3
        assert all("ccccccccc" in hit.body and hit.similarity is not None for hit in hits)
        assert await work.step()
        steps, models = steps + 1, await _models(rig)
    assert models == {"old": "retired", "new": "serving"}
    assert steps == DOCUMENTS // BATCH + 1
    assert await _vectors(rig, "new") == DOCUMENTS
    asked = NEW.asked
    after = await _found(search)
    assert [hit.body[-10:] for hit in after] == ["ccccccccc."] * 3
    assert all(hit.similarity is not None for hit in after)
    assert NEW.asked == asked + 1, "the new model is asked for the question"
    assert [hit.chunk_id for hit in await _found(_search(rig, OLD))] == [hit.chunk_id for hit in after]


async def test_document_taken_in_while_the_model_changes_is_not_forgotten(rig: PostgresRig) -> None:
    work = Reembedding(rig.database(), NEW, "second")
    await work.ask_for()
    assert await work.step()
    await add_document(rig.knowledge(OLD), "t", "doc-late", "House late: kkkkkkkkk.")
    await add_base(rig.knowledge(OLD), "t", "shut", roles=["nobody"])
    await add_document(rig.knowledge(OLD), "t", "doc-draft", "House draft: kkkkkkkkk.", base_id="shut", publish=False)
    while (await _models(rig))["new"] != "serving":
        assert await work.step()
    assert await _vectors(rig, "new") == DOCUMENTS + 2
    hits = await _search(rig).find(READER, "kkkkkkkkk", 1)
    assert [hit.document_id for hit in hits] == ["doc-late"]


_WORKER = """
import asyncio, sys
from placet.knowledge import reembedding
from placet.knowledge.reembedding import Reembedding
from placet.storage import Database
from tests.integration.embedding_world import Slow

reembedding.BATCH = 4

async def main() -> None:
    work = Reembedding(Database.open(sys.argv[1]), Slow("new", 30), "killed")
    await work.ask_for()
    while await work.step():
        print("batch", flush=True)

asyncio.run(main())
"""


async def test_worker_killed_while_it_embeds_leaves_whole_batches_and_another_one_finishes(
    rig: PostgresRig,
) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORKER, rig.url(), cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'libs'}"},
    )  # fmt: skip
    assert worker.stdout is not None
    assert (await worker.stdout.readline()).strip() == b"batch"
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    done = await _vectors(rig, "new")
    assert done % BATCH == 0
    assert 0 < done < DOCUMENTS
    assert (await _models(rig))["old"] == "serving"
    assert len(await _found(_search(rig))) == 3
    second = Reembedding(rig.database(), NEW, "second")
    assert not await second.step(), "the dead worker's lease holds, as a living one's would"
    async with rig.database().transaction() as connection:
        await connection.execute(text("UPDATE knowledge.embedding_models SET leased_until = now()"))
    asked = NEW.asked
    while (await _models(rig))["new"] != "serving":
        assert await second.step()
    assert NEW.asked - asked == DOCUMENTS - done, "what was done is not done again"
    assert await _vectors(rig, "new") == DOCUMENTS


async def test_vectors_of_a_retired_model_are_cleared_away_after_a_while(rig: PostgresRig) -> None:
    work = Reembedding(rig.database(), NEW, "second")
    await work.ask_for()
    while (await _models(rig))["new"] != "serving":
        await work.step()
    assert not await work.step()
    assert await _vectors(rig, "old") == DOCUMENTS, "a search that began before may still need them"
    async with rig.database().transaction() as connection:
        await connection.execute(text("UPDATE knowledge.embedding_models SET since = now() - interval '5 minutes'"))
    assert await work.step()
    assert await _vectors(rig, "old") == 0
    await Reembedding(rig.database(), OLD, "third").ask_for()
    assert (await _models(rig))["old"] == "building", "a model that comes back is built again"


async def test_embedding_waits_for_a_model_that_is_away(rig: PostgresRig, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Letters):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.asked += 1
            if self.asked < 3:
                raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "down")
            return await super().embed(texts)

    for pause in ("START_S", "IDLE_S", "PAUSE_S"):
        monkeypatch.setattr(reembedding, pause, 0.01)
    task = asyncio.create_task(Reembedding(rig.database(), Away("new", 30), "second").run())
    async with asyncio.timeout(60):
        while (await _models(rig)).get("new") != "serving":
            await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait([task])


async def test_store_keeps_searching_with_the_model_that_serves(rig: PostgresRig) -> None:
    """Started with a model that has nothing yet: its own vectors would find nothing."""
    store = KnowledgeStore(rig.database(), rig.originals, Letters("newest", 40), others={"old": OLD}.get)
    hits = await store.search(READER, "ccccccccc", 3)
    assert all(hit.similarity is not None for hit in hits)
    assert len(hits) == 3
