"""Choosing calls: by the program on fixed routes, else by the model among the tools that are offered to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.tools import Route, Sensitivity, ToolDescriptor
from services.agent.adapters.graph.allowance import Allowance
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.nodes.intake import Intake
from services.agent.adapters.graph.reading import Reading
from services.agent.adapters.graph.state import RunState, calls_of, route_of, usage_of
from services.agent.domain.asking import Planned, PlanPrompt
from services.agent.domain.calls import Call, CallStatus, call_id, earlier_twin
from services.agent.domain.evidence import SEARCH
from services.agent.domain.wanted import problem_of, tool_name
from services.agent.errors import ModelUnavailableError
from services.agent.ports import Model, ToolDoor

_FIXED_K, _SUMMARY_K = 6, 12
_LOOK_UP = frozenset({Route.AGENTIC_RAG, Route.VERSION_TOOL})
# A tool whose call ended like this is not offered again in the same run: people are not asked twice.
_CLOSED = frozenset({CallStatus.REJECTED, CallStatus.EXPIRED, CallStatus.CANCELLED, CallStatus.DENIED})


class Planning:
    def __init__(self, tools: ToolDoor, model: Model, intake: Intake, reading: Reading, allowance: Allowance) -> None:
        self._tools = tools
        self._allowance = allowance
        self._model = model
        self._intake = intake
        self._reading = reading

    async def retrieve(self, state: RunState, drive: DriveContext) -> RunState:
        """One search, without a model."""
        if await self._allowance.for_a_round(usage_of(state), drive):
            return {"stop": "limit_reached"}
        await self._offer(drive, route_of(state))
        k = _SUMMARY_K if route_of(state) is Route.SUMMARY else _FIXED_K
        return {"calls": [(await self._search(drive, 1, k)).as_json()], "usage": {"steps": 1}}

    async def _search(self, drive: DriveContext, step: int, k: int) -> Call:
        args = {"query": await self._intake.query(drive), "k": k}
        return self._call(drive, step=step, index=0, tool=SEARCH, args=args)

    async def plan(self, state: RunState, drive: DriveContext) -> RunState:
        usage, calls = usage_of(state), calls_of(state)
        if await self._allowance.for_a_round(usage, drive):
            return {"stop": "limit_reached"}
        await self._offer(drive, route_of(state))
        offered = self._still_offered(drive, calls)
        if not offered:
            # Whoever is offered nothing at all may do nothing here. Later on it only means that nothing is left: a
            # round in which nothing was planned.
            return {"usage": {"steps": 1}} if calls else {"stop": "refused"}
        await self._reading.restore(drive, calls, route_of(state))
        prompt = PlanPrompt(
            drive.run.question, await self._intake.query(drive), offered, self._reading.told(drive, calls)
        )
        try:
            planned = await self._model.plan(prompt, timeout_s=drive.remaining_s(usage))
        except ModelUnavailableError:
            return await self._degraded(state, drive, calls)
        await self._allowance.charge(drive, planned.tokens)
        left = max(0, drive.limits.tool_calls - usage.tool_calls)
        # One too many is kept: it says that there was a limit. A reply of a thousand calls fills no checkpoint.
        return self._planned(drive, usage.steps + 1, calls, replace(planned, calls=planned.calls[: left + 1]))

    async def _degraded(self, state: RunState, drive: DriveContext, calls: Sequence[Call]) -> RunState:
        """Without a model: what a plain search finds, on routes that only look things up."""
        update: RunState = {"stop": "model_unavailable", "usage": {"steps": 1}}
        if calls or route_of(state) not in _LOOK_UP or drive.tool(SEARCH) is None:
            return update
        search = await self._search(drive, usage_of(state).steps + 1, _FIXED_K)
        return {**update, "calls": [search.as_json()]}

    async def _offer(self, drive: DriveContext, route: Route) -> None:
        """Learn which tools this run may see. None when it cannot be asked: then nothing can be called either."""
        if drive.tools is not None:
            return
        try:
            drive.learn(await self._tools.offered(drive.run, route))
        except PlacetError as error:
            if error.retryable:
                raise
            drive.tools = ()

    def _still_offered(self, drive: DriveContext, calls: Sequence[Call]) -> tuple[ToolDescriptor, ...]:
        closed = {call.tool for call in calls if call.status in _CLOSED and not call.reads}
        return tuple(tool for tool in drive.tools or () if tool.name not in closed)

    def _planned(self, drive: DriveContext, step: int, calls: Sequence[Call], planned: Planned) -> RunState:
        used: dict[str, float] = {"steps": 1, "tokens": planned.tokens}
        if not planned.calls:
            drive.said = planned.say
            return {"usage": used}
        fresh: list[Call] = []
        for index, wanted in enumerate(planned.calls):
            problem = problem_of(None if wanted.malformed else wanted.args)
            tool, args = tool_name(wanted.tool), {} if problem else wanted.args
            call = self._call(drive, step=step, index=index, tool=tool, args=args)
            if problem:
                # Told to the model as its own mistake; it never leaves this process.
                invalid = ErrorCode.INVALID_ARGUMENTS.value
                call = replace(call, status=CallStatus.ERROR, code=invalid, note=problem)
            elif twin := earlier_twin([*calls, *fresh], tool, args):
                # One of the same round is about to be made: this one waits for nothing and is answered from it.
                status = CallStatus.OK if twin.status is CallStatus.PLANNED else twin.status
                call = replace(call, status=status, code=twin.code, repeats=twin.call_id)
            fresh.append(call)
        return {"calls": [call.as_json() for call in fresh], "usage": used}

    def _call(self, drive: DriveContext, *, step: int, index: int, tool: str, args: dict[str, Any]) -> Call:
        declared = drive.tool(tool)
        return Call(
            call_id=call_id(drive.run.run_id, step, index, tool, args),
            step=step,
            tool=tool,
            args=args,
            title=declared.title if declared else "",
            risk=declared.risk.value if declared else "",
            # What is not declared to this run is taken for a read, whose result is not kept.
            reads=declared is None or declared.sensitivity is not Sensitivity.WRITE,
        )
