"""The first nodes: the conversation's hint, and the route."""

from __future__ import annotations

from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.state import RunState
from services.agent.domain.memory import resolved
from services.agent.domain.routing import route_of
from services.agent.ports import Summaries


class Intake:
    def __init__(self, summaries: Summaries) -> None:
        self._summaries = summaries

    async def scope(self, state: RunState, drive: DriveContext) -> RunState:
        """Resolve what the question leans on. The grant was verified when this drive began; rights are not read here
        but by the executor, at every call."""
        await self.query(drive)
        return {}

    async def route(self, state: RunState, drive: DriveContext) -> RunState:
        routing = route_of(drive.run.question)
        await drive.log.append("run-routed", {"route": routing.route.value})
        return {"route": routing.route.value, "rule": routing.rule}

    async def query(self, drive: DriveContext) -> str:
        """The question as it is searched for; read again by a drive that begins in the middle."""
        if drive.query is None:
            drive.query = resolved(drive.run.question, await self._summaries.load(drive.run))
        return drive.query
