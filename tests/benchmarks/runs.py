"""Whole runs through the front door of a real `placet up` with the offline model, beside LangGraph alone, in one run.

An answer from documents with citations, and a ticket that one person must confirm: asked, proposed, decided, executed,
told. CPU per run and process says what each service costs; the bare graph does nothing in as many nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil

from placet.client import PlacetClient
from placet.client.proposals import acknowledge
from placet.contracts.runs import RunFinish
from placet.testkit.placet_process import PlacetProcess, running
from tests.benchmarks import bare_graph
from tests.benchmarks.measuring import Measured, measure

# In flight -> runs: short, because machines are shared and ratios are what counts.
_LOADS = {1: 40, 8: 120}


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    in_flight: int
    measured: Measured
    cpu_ms: dict[str, float]
    bare_ms: float


class Journeys:
    def __init__(self, alice: PlacetClient) -> None:
        self._alice = alice
        self._numbers = itertools.count()

    async def answer(self, _: int) -> object:
        chat = await self._alice.runs.chat("What is the lodging limit per night in Shanghai?")
        assert chat.finish_reason is RunFinish.SUCCESS
        assert chat.citations
        return chat

    async def ticket(self, _: int) -> object:
        number = next(self._numbers)
        asked = await self._alice.runs.chat(f'Please open a ticket for the support team: "printer {number} is broken".')
        assert asked.proposal, asked
        proposal = await self._alice.proposals.get(asked.proposal.proposal_id)
        await self._alice.proposals.decide(
            proposal.proposal_id, "approve", digest=proposal.digest, acknowledgements=acknowledge(proposal)
        )
        ended = await self._alice.runs.wait(asked.run_id)
        assert ended.data["finish_reason"] == RunFinish.SUCCESS, ended
        return ended


async def main(engine: str | None = None) -> None:
    bare = {"answer": await bare_graph.answered_ms(), "ticket": await bare_graph.approved_ms()}
    async with _house(engine) as house, house.client("alice") as alice:
        journeys = Journeys(alice)
        work = {"answer": journeys.answer, "ticket": journeys.ticket}
        rows = [
            await _row(house, name, journey, in_flight, bare[name])
            for name, journey in work.items()
            for in_flight in _LOADS
        ]
    _print(rows)


_house = asynccontextmanager(lambda engine: running(engine or "auto"))


async def _row(
    house: PlacetProcess, name: str, work: Callable[[int], Awaitable[object]], in_flight: int, bare_ms: float
) -> Row:
    runs = _LOADS[in_flight]
    for number in range(5):
        await work(number)
    before = _cpu(house)
    measured = await measure(work, calls=runs, in_flight=in_flight, warm_up=0)
    after = _cpu(house)
    return Row(name, in_flight, measured, {one: (after[one] - before[one]) / runs * 1e3 for one in after}, bare_ms)


def _cpu(house: PlacetProcess) -> dict[str, float]:
    """CPU seconds so far by process; a database's sessions are processes of their own."""
    spent: dict[str, float] = {}
    for name, pid in house.pids().items():
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)] if name == "postgres" else [process]
        spent[name] = sum(times.user + times.system for times in map(_times, family))
    return spent


def _times(process: psutil.Process) -> object:
    return process.cpu_times()


def _print(rows: list[Row]) -> None:
    print(f"\n{'':10}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'runs/s':>8}  CPU ms a run")
    for row in rows:
        m = row.measured
        total = sum(row.cpu_ms.values())
        spent = ", ".join(f"{name} {ms:.1f}" for name, ms in row.cpu_ms.items())
        ratio = row.cpu_ms["agent"] / row.bare_ms
        print(
            f"{row.label:10}{row.in_flight:>10}{m.p50_ms:>9.0f}{m.p99_ms:>9.0f}{m.per_s:>8.1f}  {total:.1f}: {spent};"
            f" bare LangGraph {row.bare_ms:.1f}, the agent {ratio:.1f} times as much"
        )
