"""How long a search takes, and how that grows: `python -m tests.benchmarks.search [--sizes 1000 20000] [--recall]`.

Three readers ask the same questions of each size: of one thousandth, a tenth and all of the chunks, in 100 bases. The
vectors of the questions are given, so the time is that of the database and of ranking; what embedding a question with
the offline model takes is told beside. A run with 200,000 chunks takes about three minutes on two quiet cores; ratios
hold on a busy machine, milliseconds do not. `--recall` tells, too, what is found of what looking at every chunk finds.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import psutil
from sqlalchemy.engine import make_url

from placet.knowledge.embedders import UseEmbedder
from placet.knowledge.models import KnowledgeScope
from placet.knowledge.search import Search
from placet.knowledge.store import KnowledgeStore
from placet.storage import Database
from placet.testkit.inline_parser import InlineParser
from placet.testkit.postgres import PostgresRig
from tests.benchmarks.search.corpus import BASES, DIMENSIONS, Corpus
from tests.benchmarks.search.exact import Exact, measure
from tests.benchmarks.search.filling import MODEL, fill
from tests.integration.knowledge_world import add_base, add_document, new_tenant

READERS = {"0.1%": "few", "10%": "tenth", "100%": "everything"}
READ_BASES = {"0.1%": 1, "10%": 10, "100%": BASES}  # the first so many
QUESTIONS, WARM_UP = 60, 10
K = 10


class Given:
    """Vectors that are known already."""

    model, weight = MODEL, 0.3

    def __init__(self, known: dict[str, list[float]]) -> None:
        self._known = known

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._known.get(text) or [DIMENSIONS**-0.5] * DIMENSIONS for text in texts]


@dataclass(slots=True)
class Cell:
    """One reader of one size; times in ms."""

    corpus: Corpus
    visible: str
    took: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    hits: int = 0

    @property
    def mean_hits(self) -> float:
        return self.hits / len(self.took)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.search", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 20_000, 200_000], help="chunks, ascending")
    parser.add_argument("--recall", action="store_true", help="compare with exact search (another minute)")
    asked = parser.parse_args()
    asyncio.run(_measure(asked.sizes, asked.recall))


async def _measure(sizes: Sequence[int], recall: bool) -> None:
    directory = Path(tempfile.mkdtemp(prefix="placet-bench-"))
    directory.chmod(0o755)  # the database runs as an unprivileged user below it
    rig = PostgresRig(directory / "postgres")
    try:
        await rig.start()
        await _ingest(rig)
        corpora = [Corpus(size) for size in sizes]
        for corpus in corpora:
            started = time.perf_counter()
            await fill(_admin(rig), f"bench-{corpus.chunks}", corpus)
            filled_s = time.perf_counter() - started
            print(f"{corpus.chunks} chunks filled in {filled_s:.0f} s; {await _sizes(rig)}", flush=True)
        _print(await _search(rig, [Cell(corpus, visible) for visible in READERS for corpus in corpora]))
        print(_memory())
        if recall:
            await _recall(rig, corpora)
    finally:
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)


def _admin(rig: PostgresRig) -> str:
    return make_url(rig.server.admin_url).set(database="placet").render_as_string(hide_password=False)


async def _ingest(rig: PostgresRig) -> None:
    """The way documents take: parsed, cut, indexed, published; without a model, and embedding alone."""
    corpus, tenant = Corpus(400), new_tenant()
    store = KnowledgeStore(rig.database(), rig.originals, Given({}), InlineParser())
    await add_base(store, tenant)
    texts: list[list[str]] = [[] for _ in range(20)]
    for place in corpus.places():
        texts[place.number % 20].append(" ".join(corpus.words[word] for word in corpus.words_of(place)))
    started = time.perf_counter()
    for number, chunks in enumerate(texts):
        await add_document(
            store, tenant, f"doc-{number}", "\n\n".join(f"# {n}\n\n{text}" for n, text in enumerate(chunks))
        )
    took = time.perf_counter() - started
    model = UseEmbedder()
    await model.embed(["warm up"])
    started = time.perf_counter()
    await model.embed(texts[0])
    chunks_s = len(texts[0]) / (time.perf_counter() - started)
    started = time.perf_counter()
    for number in range(20):
        await model.embed([f"How much is the allowance of traveller {number}?"])
    question_ms = (time.perf_counter() - started) / 20 * 1e3
    print(f"\ningest {400 / took:.0f} chunks/s without a model; the offline model alone {chunks_s:.0f} chunks/s,")
    print(f"and {question_ms:.1f} ms for a question, which comes on top of the times below")


async def _search(rig: PostgresRig, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Cell by cell within each question, so that whatever else the machine does meets all of them alike."""
    questions = cells[0].corpus.questions(WARM_UP + QUESTIONS)
    # Two connections, two processes of the server: what they and this one compute is the cost of a search.
    database = Database.open(rig.url(), pool_size=2, overflow=0, application="bench")
    search = Search(database, Given(dict(questions)))
    async with database.transaction(read_only=True) as one, database.transaction(read_only=True) as other:
        pids = [(await each.exec_driver_sql("SELECT pg_backend_pid()")).scalar_one() for each in (one, other)]
    server = [psutil.Process(pid) for pid in pids]
    try:
        for number, (text, _) in enumerate(questions):
            for cell in cells:
                reader = KnowledgeScope(f"bench-{cell.corpus.chunks}", "reader", frozenset({READERS[cell.visible]}))
                computed, started = _computed(server), time.perf_counter()
                found = await search.find(reader, text, K)
                took = time.perf_counter() - started
                if number >= WARM_UP:
                    cell.took.append(took * 1e3)
                    cell.cpu.append((_computed(server) - computed) * 1e3)
                    cell.hits += len(found)
    finally:
        await database.close()
    return cells


async def _recall(rig: PostgresRig, corpora: Sequence[Corpus]) -> None:
    questions = corpora[0].questions(QUESTIONS)
    print(f"\n{'visible':>8}{'chunks':>9}   found of the ten best by words, nearest by meaning")
    for corpus in corpora:
        exact = Exact(corpus, questions)
        for visible, role in READERS.items():
            reader = KnowledgeScope(f"bench-{corpus.chunks}", "reader", frozenset({role}))
            found = await measure(rig.database(), exact, reader, READ_BASES[visible], questions)
            print(f"{visible:>8}{corpus.chunks:>9}{found.words:>17.3f}{found.meaning:>24.3f}", flush=True)


def _computed(server: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for process in server]
    return time.process_time() + sum(each.user + each.system for each in times)


async def _sizes(rig: PostgresRig) -> str:
    statement = """
    SELECT coalesce(sum(pg_table_size(oid)), 0) / 1e6, coalesce(sum(pg_indexes_size(oid)), 0) / 1e6
    FROM pg_class WHERE relnamespace = 'knowledge'::regnamespace AND relkind = 'r'
    """
    async with rig.database().transaction(read_only=True) as connection:
        tables, indexes = (await connection.exec_driver_sql(statement)).one()
    return f"tables {tables:.0f} MB, indexes {indexes:.0f} MB on disk"


def _memory() -> str:
    """This process, and what the database's processes share and own together."""
    own, server = psutil.Process(), 0
    for child in own.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # the server ends its workers as it likes
            server += child.memory_full_info().pss if "postgres" in child.name() else 0
    return f"memory {own.memory_info().rss / 1e6:.0f} MB here, {server / 1e6:.0f} MB database"


def _print(cells: Sequence[Cell]) -> None:
    print(
        f"\n{'visible':>8}{'chunks':>9}{'hits':>6}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms':>9}"
        f"{'p50 ratio':>11}{'CPU ratio':>11}"
    )
    smallest: dict[str, Cell] = {}
    for cell in cells:
        # Fewer hits are less work: ratios are told to the smallest size with as large a result.
        if cell.visible not in smallest and cell.mean_hits > K - 0.5:
            smallest[cell.visible] = cell
        first = smallest.get(cell.visible, cell)
        took = sorted(cell.took)
        p50, cpu = took[len(took) // 2], fmean(cell.cpu)
        ratio = p50 / sorted(first.took)[len(took) // 2]
        print(
            f"{cell.visible:>8}{cell.corpus.chunks:>9}{cell.mean_hits:>6.1f}{p50:>9.2f}"
            f"{took[int(len(took) * 0.99)]:>9.2f}{cpu:>9.2f}{ratio:>11.2f}{cpu / fmean(first.cpu):>11.2f}"
        )


if __name__ == "__main__":
    main()
