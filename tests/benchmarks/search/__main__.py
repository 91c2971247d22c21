"""How long a search takes, and how that grows: `python -m tests.benchmarks.search [--sizes 1000 20000 200000]`.

Three readers ask the same questions of each size: of one thousandth, a tenth and all of the chunks, in 100 bases. The
vectors of the questions are given, so the time is that of the database and of ranking; what embedding a question with
the offline model takes is told beside. A run with 200,000 chunks takes about three minutes on two quiet cores; ratios
hold on a busy machine, milliseconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy.engine import make_url

from placet.knowledge.embedders import UseEmbedder
from placet.knowledge.models import KnowledgeScope
from placet.knowledge.search import Search
from placet.knowledge.store import KnowledgeStore
from placet.testkit.inline_parser import InlineParser
from placet.testkit.postgres import PostgresRig
from tests.benchmarks.search.corpus import DIMENSIONS, Corpus
from tests.benchmarks.search.filling import MODEL, fill
from tests.integration.knowledge_world import add_base, add_document, new_tenant

READERS = {"0.1%": "few", "10%": "tenth", "100%": "everything"}
QUESTIONS = 60
K = 10


class Given:
    """Vectors that are known already."""

    model, weight = MODEL, 0.3

    def __init__(self, known: dict[str, list[float]]) -> None:
        self._known = known

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._known.get(text) or [DIMENSIONS**-0.5] * DIMENSIONS for text in texts]


@dataclass(frozen=True, slots=True)
class Row:
    chunks: int
    visible: str
    hits: float
    p50_ms: float
    p99_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.search", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 20_000, 200_000], help="chunks, ascending")
    asyncio.run(_measure(parser.parse_args().sizes))


async def _measure(sizes: Sequence[int]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="placet-bench-"))
    directory.chmod(0o755)  # the database runs as an unprivileged user below it
    rig = PostgresRig(directory / "postgres")
    rows: list[Row] = []
    try:
        await rig.start()
        await _ingest(rig)
        print(f"\n{'chunks':>8}{'visible':>9}{'hits':>6}{'p50 ms':>9}{'p99 ms':>9}{'p50 / smallest':>16}")
        for size in sizes:
            started = time.perf_counter()
            corpus = Corpus(size)
            await fill(_admin(rig), f"bench-{size}", corpus)
            filled_s = time.perf_counter() - started
            for visible in READERS:
                rows.append(await _search(rig, corpus, visible))
                _print(rows)
            print(f"{'':8}filled in {filled_s:.0f} s; {await _sizes(rig)}; {_memory()}", flush=True)
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


async def _search(rig: PostgresRig, corpus: Corpus, visible: str) -> Row:
    questions = corpus.questions(QUESTIONS)
    search = Search(rig.database(), Given(dict(questions)))
    reader = KnowledgeScope(f"bench-{corpus.chunks}", "reader", frozenset({READERS[visible]}))
    took, hits = [], 0
    for text, _ in (*questions[:10], *questions):
        started = time.perf_counter()
        found = await search.find(reader, text, K)
        took.append((time.perf_counter() - started) * 1e3)
        hits += len(found)
    measured = sorted(took[10:])
    p99 = measured[int(len(measured) * 0.99)]
    return Row(corpus.chunks, visible, hits / len(took), measured[len(measured) // 2], p99)


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
    own = psutil.Process().memory_info().rss / 1e6
    server = [child for child in psutil.Process().children(recursive=True) if "postgres" in child.name()]
    return f"memory {own:.0f} MB here, {sum(child.memory_full_info().pss for child in server) / 1e6:.0f} MB database"


def _print(rows: Sequence[Row]) -> None:
    row = rows[-1]
    same = next(other for other in rows if other.visible == row.visible)
    # Fewer hits are less work: a ratio is told only where the result is as large.
    ratio = f"{row.p50_ms / same.p50_ms:.2f}" if abs(row.hits - same.hits) < 0.5 else "-"
    print(f"{row.chunks:>8}{row.visible:>9}{row.hits:>6.1f}{row.p50_ms:>9.2f}{row.p99_ms:>9.2f}{ratio:>16}", flush=True)


if __name__ == "__main__":
    main()
