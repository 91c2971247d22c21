"""Executing planned calls at the executor's door. What an answer means is decided by the error table (T4)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from placet.contracts.errors import ErrorCode, NextHop, PlacetError
from placet.contracts.execution import ToolReply
from placet.messaging.rpc import UnreachedError
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.reading import Reading, influence_of
from services.agent.adapters.graph.state import RunState, calls_of, route_of, usage_of
from services.agent.domain.calls import Call, CallStatus
from services.agent.domain.evidence import refs_of
from services.agent.domain.limits import Usage
from services.agent.domain.outcomes import failed, next_hop
from services.agent.domain.patience import CALL_AWAY
from services.agent.ports import ToolDoor

_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.25
_GRACE_S = 2.0  # on top of the tool's own time limit, for the decision before it and the way there and back
_DEFAULT_TIMEOUT_S = 10.0
_NOT_WHEN_REPEATED = frozenset({NextHop.SAME_NODE, NextHop.ASK_BACK, NextHop.TELL_USER})


class Execution:
    def __init__(self, tools: ToolDoor, reading: Reading) -> None:
        self._tools = tools
        self._reading = reading

    async def execute(self, state: RunState, drive: DriveContext) -> RunState:
        """Run what is planned: reads side by side, anything that may change something one after the other."""
        calls, usage = calls_of(state), usage_of(state)
        planned = [call for call in calls if call.status is CallStatus.PLANNED]
        dropped = [call for call in planned if call.call_id in drive.stale - drive.log.record.proposed.keys()]
        planned = [call for call in planned if call not in dropped]
        left = max(0, drive.limits.tool_calls - usage.tool_calls)
        allowed, beyond = planned[:left], planned[left:]
        slots = asyncio.Semaphore(drive.limits.parallel if all(call.reads for call in allowed) else 1)

        async def one(call: Call) -> Call:
            async with slots:
                return await self._one(state, drive, calls, call)

        results = await asyncio.gather(*(one(call) for call in allowed), return_exceptions=True)
        broken = next((result for result in results if isinstance(result, BaseException)), None)
        if broken is not None:
            raise broken
        done = [result for result in results if isinstance(result, Call)]
        done += [replace(call, status=CallStatus.ERROR, code=ErrorCode.LIMIT_REACHED.value) for call in beyond]
        done += [replace(call, status=CallStatus.DROPPED) for call in dropped]
        stopped = any(call.code == ErrorCode.LIMIT_REACHED.value for call in done)
        update: RunState = {"calls": [call.as_json() for call in done], "usage": {"tool_calls": len(allowed)}}
        return update | {"stop": "limit_reached"} if stopped else update

    async def _one(self, state: RunState, drive: DriveContext, calls: Sequence[Call], call: Call) -> Call:
        record = drive.log.record
        if proposal_id := record.proposal_of(call.call_id):
            # Announced by a worker that died: the proposal is there, and asking again might find it carried out.
            return replace(call, status=CallStatus.WAITING, proposal_id=proposal_id)
        asked_before = call.call_id in record.proposed and call.call_id not in drive.waited.unreached
        await drive.log.append("tool-proposed", {"call_id": call.call_id, "tool": call.tool, "risk": call.risk})
        try:
            reply = await self._answer(state, drive, calls, call)
        except PlacetError as error:
            if error.code in CALL_AWAY and drive.patient:
                if isinstance(error, UnreachedError) and not asked_before:
                    drive.unreached.add(call.call_id)
                raise
            done = failed(call, error)
            if asked_before and not call.reads and next_hop(done) in _NOT_WHEN_REPEATED:
                # The first asking may have been carried out meanwhile, which would explain this very error.
                done = replace(done, code=ErrorCode.OUTCOME_UNKNOWN.value, note=None, problems=())
            await _completed(drive, done)
            return done
        return await self._took(drive, call, reply)

    async def _took(self, drive: DriveContext, call: Call, reply: ToolReply) -> Call:
        if reply.status == "waiting_for_human" and reply.proposal is not None:
            # The executor answers this only when the proposal is stored: now it may be shown.
            await drive.log.append("run-waiting-for-human", reply.proposal.model_dump(mode="json"))
            return replace(call, status=CallStatus.WAITING, proposal_id=reply.proposal.proposal_id)
        done = replace(
            call,
            status=CallStatus.OK,
            refs=refs_of(reply.evidence),
            receipt=None if call.reads else (reply.result or {}),
        )
        if done.reads:
            self._reading.take_in(drive, done, reply)
        await _completed(drive, done)
        return done

    async def _answer(self, state: RunState, drive: DriveContext, calls: Sequence[Call], call: Call) -> ToolReply:
        """Ask, and ask again about the same call while that is worthwhile.

        Raises `PlacetError`; `UnreachedError` only when the call was delivered to nobody at any time.
        """
        usage, delivered = usage_of(state), False
        for attempt in range(1, _ATTEMPTS + 1):
            task = asyncio.create_task(self._ask(state, drive, calls, call, usage))
            drive.inflight[call.call_id] = task
            try:
                # Shielded: when the run is cancelled, the driver still wants to learn of a proposal made meanwhile.
                reply = await asyncio.shield(task)
            except PlacetError as error:
                drive.inflight.pop(call.call_id, None)
                delivered = delivered or not isinstance(error, UnreachedError)
                if not error.retryable or attempt == _ATTEMPTS:
                    if delivered and isinstance(error, UnreachedError):
                        raise PlacetError(error.code, error.message) from error
                    raise
                await asyncio.sleep(_FIRST_PAUSE_S * 2 ** (attempt - 1) * (0.5 + random.random()))  # noqa: S311 - jitter
            else:
                drive.inflight.pop(call.call_id, None)
                return reply
        raise PlacetError(ErrorCode.TIMEOUT, "The tool gave no answer.")

    async def _ask(
        self, state: RunState, drive: DriveContext, calls: Sequence[Call], call: Call, usage: Usage
    ) -> ToolReply:
        declared = drive.tool(call.tool)
        wanted_s = declared.timeout_s + _GRACE_S if declared else _DEFAULT_TIMEOUT_S
        return await self._tools.execute(
            drive.run,
            call,
            route_of(state),
            influence=influence_of(calls),
            budget=usage.as_budget(drive.limits),
            timeout_s=max(0.1, min(wanted_s, drive.remaining_s(usage))),
        )


async def _completed(drive: DriveContext, call: Call) -> None:
    data = {"call_id": call.call_id, "tool": call.tool, "status": call.status.value}
    await drive.log.append("tool-completed", data | ({"code": call.code} if call.code else {}))
