"""Which tools a caller is offered on a route: route, manifest and role grants intersected by policy (T2)."""

from __future__ import annotations

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ListTools, ToolList
from placet.contracts.policy import NO_REVISION, Subject
from placet.contracts.tools import Route
from placet.messaging.rpc import Call
from placet.policy.port import PolicyDecisionPoint
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.facts import AGENT
from services.tool_executor.handlers.identity import Caller, Callers

_MAX_CACHED = 4096


class Offer:
    """Answers from a cache keyed by everything the answer depends on; a new policy revision empties it.

    An answer that is a moment old only decides how early a call is refused: every call is decided anew after this.
    """

    def __init__(self, callers: Callers, registry: ToolRegistry, policy: PolicyDecisionPoint) -> None:
        self._callers = callers
        self._registry = registry
        self._policy = policy
        self._revision = NO_REVISION
        self._cache: dict[tuple[str, str, bool, tuple[str, ...]], frozenset[str]] = {}

    async def of(self, caller: Caller, route: Route) -> frozenset[str]:
        """Raises `PlacetError(policy_unavailable)` when policy gives no answer."""
        person = caller.person
        key = (route.value, caller.channel, person.active, tuple(sorted(person.roles)))
        if key in self._cache:
            return self._cache[key]
        agent = AGENT if caller.channel == "chat" else None
        answer = await self._policy.bound_tools(
            Subject.of(person), route, channel=caller.channel, agent=agent, manifest=agent
        )
        if answer.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no decision; nothing was done.")
        self.saw_revision(answer.policy_revision)
        if len(self._cache) < _MAX_CACHED:
            self._cache[key] = frozenset(answer.tools)
        return frozenset(answer.tools)

    def saw_revision(self, revision: str) -> None:
        """Told the revision of every decision: a different one means that the policy has changed."""
        if revision != self._revision:
            self._revision = revision
            self._cache.clear()

    async def on_list(self, call: Call, command: ListTools) -> ToolList:
        caller = await self._callers.of(command.grant, call.tenant)
        names = await self.of(caller, command.route)
        tools = sorted((spec for spec in self._registry if spec.name in names), key=lambda spec: spec.name)
        offered = tuple(spec.descriptor() for spec in tools)
        return ToolList(tools=offered, active=caller.person.active, policy_revision=self._revision)
