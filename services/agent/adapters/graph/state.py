"""What a checkpoint holds of a run: ids, hashes, counters and the receipts of what was done. No content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypedDict

from placet.contracts.tools import Route
from services.agent.adapters.graph.context import DriveContext
from services.agent.domain.calls import Call, CallStatus, merged
from services.agent.domain.limits import Usage, added

# Why no more planning is done: "" goes on.
Stop = Literal["", "refused", "limit_reached", "model_unavailable"]


def updated(old: dict[str, str] | None, new: dict[str, str] | None) -> dict[str, str]:
    return (old or {}) | (new or {})


class RunState(TypedDict, total=False):
    """JSON types only. `calls` are `Call.as_json()`; `usage` counts `steps`, `tool_calls`, `tokens`, `active_s`;
    `versions` say with which graph, prompts, tools and policy the run was last driven."""

    route: str
    rule: str
    stop: Stop
    calls: Annotated[list[dict[str, Any]], merged]
    usage: Annotated[dict[str, float], added]
    versions: Annotated[dict[str, str], updated]


class WaitingState(TypedDict):
    """What the node of one decision is sent: one call, which waits."""

    call: dict[str, Any]


# A node takes the state and the context of this drive and answers the changes to the state.
Node = Callable[[RunState, DriveContext], Awaitable[RunState]]


def calls_of(state: RunState) -> list[Call]:
    return [Call.from_json(document) for document in state.get("calls", [])]


def waiting(state: RunState) -> list[Call]:
    return [call for call in calls_of(state) if call.status is CallStatus.WAITING]


def usage_of(state: RunState) -> Usage:
    return Usage.of(state.get("usage"))


def route_of(state: RunState) -> Route:
    return Route(state.get("route", Route.DIRECT))
