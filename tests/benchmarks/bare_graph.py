"""LangGraph alone: as many nodes as one of our runs passes, which do nothing, with a checkpoint after each."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

_ANSWER = ("scope", "route", "plan", "execute", "settle", "compose", "finish")
_APPROVED = ("scope", "route", "plan", "execute", "await_decision", "settle", "plan_again", "compose", "finish")
RUNS = 100


class _State(TypedDict, total=False):
    seen: str
    decision: str


async def _pass(state: _State) -> _State:
    return {"seen": "x"}


async def _gate(state: _State) -> _State:
    return {"decision": interrupt({"proposal_id": "prop-1"})}


def _graph(nodes: tuple[str, ...]) -> Any:
    graph = StateGraph(_State)
    for before, node in zip((START, *nodes), nodes, strict=False):
        graph.add_node(node, _gate if node == "await_decision" else _pass)
        graph.add_edge(before, node)
    graph.add_edge(nodes[-1], END)
    return graph.compile(checkpointer=InMemorySaver())


async def answered_ms() -> float:
    """CPU milliseconds of one run without a person."""
    graph = _graph(_ANSWER)

    async def run(thread: dict[str, Any]) -> None:
        await graph.ainvoke({"seen": ""}, thread)

    return await _cpu_ms(run)


async def approved_ms() -> float:
    """CPU milliseconds of one run that is interrupted once, and resumed."""
    graph = _graph(_APPROVED)

    async def run(thread: dict[str, Any]) -> None:
        await graph.ainvoke({"seen": ""}, thread)
        await graph.ainvoke(Command(resume="approve"), thread)

    return await _cpu_ms(run)


async def _cpu_ms(run: Callable[[dict[str, Any]], Awaitable[None]]) -> float:
    for warm_up in range(5):
        await run({"configurable": {"thread_id": f"warm-{warm_up}"}})
    started = time.process_time()
    for number in range(RUNS):
        await run({"configurable": {"thread_id": str(number)}})
    return (time.process_time() - started) / RUNS * 1e3
