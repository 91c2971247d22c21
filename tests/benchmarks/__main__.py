"""Run the benchmarks: `python -m tests.benchmarks [name ...]`. Prints one table per benchmark."""

from __future__ import annotations

import argparse
import asyncio

from tests.benchmarks import approvals, governed_read

BENCHMARKS = {"governed-read": governed_read.main, "approvals": approvals.main}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="default: all of them")
    for name in parser.parse_args().names or BENCHMARKS:
        asyncio.run(BENCHMARKS[name]())


if __name__ == "__main__":
    main()
