"""Putting the nodes together: which node follows which is decided here and by code alone, never by a model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from placet.contracts.digests import canonical
from placet.contracts.errors import NextHop
from placet.contracts.tools import Route
from services.agent.adapters.graph.allowance import Allowance
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.nodes.compose import Composition
from services.agent.adapters.graph.nodes.decide import await_decision
from services.agent.adapters.graph.nodes.execute import Execution
from services.agent.adapters.graph.nodes.finish import Finishing
from services.agent.adapters.graph.nodes.intake import Intake
from services.agent.adapters.graph.nodes.plan import Planning
from services.agent.adapters.graph.reading import Reading
from services.agent.adapters.graph.state import RunState, WaitingState, calls_of, route_of, waiting
from services.agent.domain.calls import CallStatus
from services.agent.domain.limits import added
from services.agent.domain.outcomes import next_hop
from services.agent.domain.resume import short_digest
from services.agent.domain.run import Place
from services.agent.ports import Ending, Model, Summaries, TenantCosts, ToolDoor, Trail

Graph = CompiledStateGraph[RunState, DriveContext, RunState, RunState]

# Changed whenever a checkpoint of before could not be gone on with: other nodes, other edges, another form of state.
SHAPE = 1

# Nodes of one run at most: eight rounds of plan, execute, await, settle, and the rest with room to spare.
RECURSION_LIMIT = 60

_FIXED = frozenset({Route.FIXED_RAG, Route.SUMMARY})
_SPEAK = frozenset({NextHop.DEGRADE, NextHop.TELL_USER, NextHop.PARK, NextHop.FINISH})


@dataclass(frozen=True, slots=True)
class Services:
    """What the nodes need of the outside."""

    tools: ToolDoor
    model: Model
    summaries: Summaries
    ending: Ending
    trail: Trail
    costs: TenantCosts


def build(services: Services) -> Graph:
    reading, allowance = Reading(services.tools), Allowance(services.costs)
    intake = Intake(services.summaries, services.tools, services.model, allowance)
    planning = Planning(services.tools, services.model, intake, reading, allowance)
    execution = Execution(services.tools, reading)
    composition = Composition(services.model, intake, reading, allowance)
    finishing = Finishing(composition, services.ending, services.trail)

    graph = StateGraph(RunState, context_schema=DriveContext)
    nodes: dict[str, Callable[[Any, DriveContext], Awaitable[RunState]]] = {
        "scope": intake.scope,
        "route": intake.route,
        "retrieve": planning.retrieve,
        "plan": planning.plan,
        "execute": execution.execute,
        "settle": _settle,
        "compose": composition.compose,
        "safe_refusal": finishing.safe_refusal,
        "finish": finishing.finish,
    }
    for name, node in nodes.items():
        graph.add_node(name, _metered(name, node))
    graph.add_node("await_decision", _metered("await_decision", await_decision), input_schema=WaitingState)

    graph.add_edge(START, "scope")
    graph.add_edge("scope", "route")
    graph.add_conditional_edges("route", _after_route, _named("retrieve", "plan", "compose", "safe_refusal"))
    graph.add_conditional_edges("retrieve", _after_plan, _named("execute", "compose", "safe_refusal", "plan"))
    graph.add_conditional_edges("plan", _after_plan, _named("execute", "compose", "safe_refusal", "plan"))
    following = ("plan", "compose", "safe_refusal")
    graph.add_conditional_edges("execute", _after_execute, _named("await_decision", *following))
    graph.add_edge("await_decision", "settle")
    graph.add_conditional_edges("settle", _after_calls, _named(*following))
    graph.add_edge("compose", "finish")
    graph.add_edge("safe_refusal", "finish")
    graph.add_edge("finish", END)
    return graph.compile()


def graph_version(graph: Graph) -> str:
    """Another one when the nodes, the fields of the state or `SHAPE` have changed."""
    return short_digest(canonical([SHAPE, sorted(graph.nodes), sorted(RunState.__annotations__)]))


def _named(*nodes: str) -> dict[Hashable, str]:
    return {node: node for node in nodes}


async def _settle(state: RunState, drive: DriveContext) -> RunState:
    """Where the branches of a round that waited for people meet again."""
    return {}


def _after_route(state: RunState) -> str:
    route = route_of(state)
    if route is Route.REFUSE:
        return "safe_refusal"
    if route is Route.DIRECT:
        return "compose"
    return "retrieve" if route in _FIXED else "plan"


def _after_plan(state: RunState) -> str:
    if state.get("stop") == "refused":
        return "safe_refusal"
    calls = calls_of(state)
    if any(call.status is CallStatus.PLANNED for call in calls):
        return "execute"
    if state.get("stop") or not calls:
        return "compose"
    # Calls that were answered without being executed (repeated, malformed) go back to the model in the next round.
    latest = max(call.step for call in calls)
    return "plan" if latest == int(state.get("usage", {}).get("steps", 0)) else "compose"


def _after_execute(state: RunState) -> str | list[Send]:
    open_calls = waiting(state)
    if not open_calls:
        return _after_calls(state)
    return [Send("await_decision", WaitingState(call=call.as_json())) for call in open_calls]


def _after_calls(state: RunState) -> str:
    hops = {next_hop(call) for call in calls_of(state)}
    if NextHop.SAFE_REFUSAL in hops:
        return "safe_refusal"
    if state.get("stop") or hops & _SPEAK or route_of(state) in _FIXED:
        return "compose"
    return "plan"


def _metered(name: str, node: Callable[[Any, DriveContext], Awaitable[RunState]]) -> Any:
    """The node as LangGraph calls it: refused once the lease is lost, its place told to the log, its time counted."""

    async def run(state: Any, runtime: Runtime[DriveContext]) -> RunState:
        drive = runtime.context
        drive.lease.check()
        # A branch is sent its own call only and knows no counters: those of the round before still hold.
        drive.usage = dict(state.get("usage") or drive.usage)
        drive.log.at(Place(name, drive.usage))
        started = time.monotonic()
        # Time spent waiting for a part that was away is used up like time at work, and counted once: not stored.
        update = await node({**state, "usage": added(drive.usage, {"active_s": drive.waited.seconds})}, drive)
        drive.mark = time.monotonic()
        spent = {"active_s": round(time.monotonic() - started, 4)}
        update = {**update, "usage": {**update.get("usage", {}), **spent}}
        if drive.versions != drive.stored_versions:
            drive.stored_versions = dict(drive.versions)
            update["versions"] = drive.stored_versions
        return update

    run.__name__ = name
    return run
