"""Quality of search, as a table: `python -m tests.benchmarks.retrieval [--data DIRECTORY] [--questions N] [--seeds]`.

Ends with 1 when hybrid search stays more than 0.01 behind the better of its two halves on any set, or words alone that
much behind plain BM25.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from placet.testkit.postgres import PostgresRig
from tests.benchmarks.retrieval import sets
from tests.benchmarks.retrieval.running import KINDS, Outcome, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.retrieval", description=__doc__)
    parser.add_argument("--data", type=Path, help="a directory of {docs, queries, qrels} files, beside our own set")
    parser.add_argument("--questions", type=int, default=400, help="at most this many of each file (default: 400)")
    asked = parser.parse_args()
    chosen = sets.over_seeds()
    if asked.data is not None:
        chosen += [questions.sample(asked.questions) for questions in sets.of_directory(asked.data)]
    outcomes = asyncio.run(_measure(chosen))
    sys.exit(0 if all(outcome.holds for outcome in outcomes) else 1)


async def _measure(chosen: list[sets.QuestionSet]) -> list[Outcome]:
    directory = Path(tempfile.mkdtemp(prefix="placet-bench-"))
    directory.chmod(0o755)  # the database runs as an unprivileged user below it
    rig = PostgresRig(directory / "postgres")
    print(f"\n{'nDCG@10 / recall@10':24}{'asked':>6}{'docs':>6}" + "".join(f"{kind:>16}" for kind in KINDS))
    outcomes = []
    try:
        await rig.start()
        for number, questions in enumerate(chosen):
            outcomes.append(await run(rig, questions, f"set-{number}"))
            _print(outcomes[-1])
    finally:
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)
    return outcomes


def _print(outcome: Outcome) -> None:
    asked = outcome.questions
    measured = [outcome.by_kind[kind] for kind in KINDS]
    cells = "".join(f"{f'{quality.ndcg:.3f} / {quality.recall:.3f}':>16}" for quality in measured)
    verdict = "" if outcome.holds else f"   lexical -{outcome.lexical_lag:.3f}, hybrid -{outcome.hybrid_lag:.3f}"
    label = f"{asked.name} {asked.language}"
    print(f"{label:24}{len(asked.queries):>6}{len(asked.docs):>6}{cells}{verdict}", flush=True)


if __name__ == "__main__":
    main()
