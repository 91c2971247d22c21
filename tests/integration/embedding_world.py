"""Embedding models without a model, and what a process that is killed while it embeds works with."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from placet.knowledge import reembedding
from placet.knowledge.models import Rebuild
from placet.knowledge.rebuilding import Rebuilding
from placet.knowledge.reembedding import Reembedding
from placet.knowledge.store import KnowledgeStore
from placet.storage import Database
from placet.testkit.inline_parser import InlineParser
from placet.testkit.originals import MemoryOriginals
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import add_document


class Letters:
    """A model that knows texts by their letters; every model has dimensions of its own, as real ones do."""

    weight = 0.3

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self._dimensions = model, dimensions
        self.asked = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += len(texts)
        return [self._of(text) for text in texts]

    def _of(self, text: str) -> list[float]:
        vector = [0.1] * self._dimensions
        for letter in text:
            vector[ord(letter) % self._dimensions] += 1
        length = sum(value * value for value in vector) ** 0.5
        return [value / length for value in vector]


class Slow(Letters):
    """Takes its time, so that a kill finds it at work."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(0.1)
        return await super().embed(texts)


class Files(MemoryOriginals):
    """Original files in a directory, for several processes."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    async def put(self, key: str, data: bytes) -> None:
        whole = self.directory / key.replace("/", "_")
        part = whole.with_suffix(".part")
        part.write_bytes(data)
        part.replace(whole)

    async def get(self, key: str) -> bytes:
        return (self.directory / key.replace("/", "_")).read_bytes()


@asynccontextmanager
async def server_of_its_own() -> AsyncIterator[PostgresRig]:
    """Which model serves is told for all of a database."""
    directory = Path(tempfile.mkdtemp(prefix="placet-embed-"))
    directory.chmod(0o755)
    rig = PostgresRig(directory / "postgres")
    try:
        await rig.start()
        yield rig
    finally:
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)


class Paced:
    """All three works at once, in the space of the new model, one step of any of them for each byte of standard input.

    They take turns. The last step that was asked for is under way when the process is killed.
    """

    def __init__(self, database: Database, directory: Path) -> None:
        new, old = Slow("new", 30), Letters("old", 20)
        self.store = KnowledgeStore(database, Files(directory), new, InlineParser(), others={"old": old}.get)
        self.embedding = Reembedding(database, new, "killed")
        self.rebuilding = Rebuilding(database, self.store.indexing)
        self._steps = asyncio.Semaphore(0)

    async def run(self, rebuild_id: str, first: int) -> None:
        await asyncio.gather(self._count(), self._embed(), self._read_anew(rebuild_id), self._take_in(first))

    async def _count(self) -> None:
        while await asyncio.to_thread(sys.stdin.buffer.read, 1):
            self._steps.release()

    async def _step(self) -> None:
        await self._steps.acquire()

    async def _embed(self) -> None:
        await self.embedding.ask_for()
        while True:
            await self._step()
            await self.embedding.step()

    async def _read_anew(self, rebuild_id: str) -> None:
        async def wait(_: Rebuild) -> None:
            await self._step()

        await self.rebuilding.run("t", rebuild_id, wait)

    async def _take_in(self, first: int) -> None:
        for number in count(first):
            await self._step()
            await add_document(self.store, "t", f"late-{number}", late(number))


def late(number: int) -> str:
    return f"Late number{number} {'jkl'[number % 3] * 9}."


if __name__ == "__main__":
    reembedding.BATCH = 3
    asyncio.run(Paced(Database.open(sys.argv[1]), Path(sys.argv[2])).run(sys.argv[3], int(sys.argv[4])))
