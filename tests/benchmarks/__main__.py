"""Run the benchmarks: `python -m tests.benchmarks [name ...]`. Prints one table per benchmark."""

from __future__ import annotations

import argparse

import uvloop

from tests.benchmarks import approvals, event_streams, governed_read, listing, runs

BENCHMARKS = {
    "governed-read": governed_read.main,
    "approvals": approvals.main,
    "listing": listing.main,
    "runs": runs.main,
    "event-streams": event_streams.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="default: all of them")
    parser.add_argument("--engine", choices=["opa", "embedded"], help="default: all that are here")
    options = parser.parse_args()
    for name in options.names or BENCHMARKS:
        uvloop.run(BENCHMARKS[name](options.engine))


if __name__ == "__main__":
    main()
