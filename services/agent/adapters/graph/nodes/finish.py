"""The last nodes: refusing safely, and completing the run."""

from __future__ import annotations

from placet.contracts.errors import NextHop
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.nodes.compose import Composition
from services.agent.adapters.graph.state import RunState, calls_of
from services.agent.domain.outcomes import next_hop
from services.agent.ports import Draft, Ending, Trail


class Finishing:
    def __init__(self, composition: Composition, ending: Ending, trail: Trail) -> None:
        self._composition = composition
        self._ending = ending
        self._trail = trail

    async def safe_refusal(self, state: RunState, drive: DriveContext) -> RunState:
        """Say no in the program's own words. Why stays in the audit trail: a denial's text reaches no model."""
        run = drive.run
        denied = [call for call in calls_of(state) if next_hop(call) is NextHop.SAFE_REFUSAL]
        for call in denied:
            await self._trail.security_event(
                run.tenant,
                "tool_call_denied",
                actor=run.owner,
                tool=call.tool,
                code=call.code,
                run_id=run.run_id,
                call_id=call.call_id,
            )
        if not denied:
            await self._trail.security_event(
                run.tenant, "request_refused", actor=run.owner, run_id=run.run_id, note=state.get("rule")
            )
        await self._composition.draft({**state, "stop": "refused"}, drive)
        return {"stop": "refused"}

    async def finish(self, state: RunState, drive: DriveContext) -> RunState:
        """Complete the run. A drive that begins here has no draft any more and writes it again."""
        tokens = 0 if drive.draft else await self._composition.draft(state, drive)
        draft = drive.draft
        if not isinstance(draft, Draft):
            raise TypeError("a draft was to be composed")
        await self._ending.complete(drive.run, drive.log, draft)
        return {"usage": {"tokens": tokens}}
