"""The first nodes: the conversation's hint, and the route.

A route is found by rules; where no rule fits, a real model may say what the question is (it is shown the question and
nothing else); and it is taken only if policy offers this person what the route is for (T2).
"""

from __future__ import annotations

from placet.contracts.errors import PlacetError
from placet.contracts.tools import Route
from services.agent.adapters.graph.allowance import Allowance
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.state import RunState, usage_of
from services.agent.domain.memory import resolved
from services.agent.domain.routing import confirmed, guessed, route_of
from services.agent.ports import Model, Offered, Summaries, ToolDoor

_GUESS_S = 10.0


class Intake:
    def __init__(self, summaries: Summaries, tools: ToolDoor, model: Model, allowance: Allowance) -> None:
        self._summaries = summaries
        self._tools = tools
        self._model = model
        self._allowance = allowance

    async def scope(self, state: RunState, drive: DriveContext) -> RunState:
        """Resolve what the question leans on. The grant was verified when this drive began; rights are not read here
        but by the executor, at every call."""
        await self.query(drive)
        return {}

    async def route(self, state: RunState, drive: DriveContext) -> RunState:
        routing, tokens = route_of(drive.run.question), 0
        if routing.undecided and not await self._allowance.for_a_round(usage_of(state), drive):
            guess = await self._model.route(drive.run.question, timeout_s=_GUESS_S)
            routing, tokens = guessed(drive.run.question, guess.route), guess.tokens
            await self._allowance.charge(drive, tokens)
        if routing.needs is not None:
            offered = await self._offered(drive, routing.route)
            routing = confirmed(routing, [tool.name for tool in offered.tools])
            if routing.needs:
                drive.learn(offered)
        await drive.log.append("run-routed", {"route": routing.route.value})
        return {"route": routing.route.value, "rule": routing.rule, "usage": {"tokens": tokens}}

    async def _offered(self, drive: DriveContext, route: Route) -> Offered:
        """Raises `PlacetError` while the executor is away; nothing for whom it refuses."""
        try:
            return await self._tools.offered(drive.run, route)
        except PlacetError as error:
            if error.retryable:
                raise
            return Offered()

    async def query(self, drive: DriveContext) -> str:
        """The question as it is searched for; read again by a drive that begins in the middle."""
        if drive.query is None:
            drive.query = resolved(drive.run.question, await self._summaries.load(drive.run))
        return drive.query
