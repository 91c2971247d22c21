"""Before a run is taken up again: its owner, the versions it was planned with, and its evidence, as they are now."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts.errors import PlacetError
from placet.contracts.tools import Route
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.state import RunState, calls_of
from services.agent.domain.calls import Call, CallStatus, Ref
from services.agent.domain.evidence import SEARCH, from_citation
from services.agent.domain.resume import Finding, reconsider
from services.agent.ports import Offered, ToolDoor, Trail


class Reconsideration:
    def __init__(self, tools: ToolDoor, trail: Trail) -> None:
        self._tools = tools
        self._trail = trail

    async def of(self, state: RunState, drive: DriveContext) -> Finding:
        """Ask what holds now, take it into the context of this drive, and record what follows from it.

        Raises `PlacetError` while the executor is away: then nobody knows, and the run waits.
        """
        route = state.get("route")
        offered = await self._offered(drive, Route(route) if route else Route.DIRECT)
        if route:
            drive.learn(offered)
        gone = await self._read_again(drive, calls_of(state))
        finding = reconsider(state.get("versions") or {}, drive.versions, active=offered.active, evidence_gone=gone)
        await self._trail.record(
            drive.run.tenant,
            "run-reconsidered",
            action="resume",
            outcome=finding.verdict.value,
            actor=drive.run.owner,
            run_id=drive.run.run_id,
            note=", ".join(finding.reasons) or "unchanged",
            policy_revision=offered.policy_revision or None,
        )
        return finding

    async def _offered(self, drive: DriveContext, route: Route) -> Offered:
        """Nothing for a run whose grant has ended: it can still be told what became of its proposal."""
        try:
            return await self._tools.offered(drive.run, route)
        except PlacetError as error:
            if error.retryable:
                raise
            return Offered()

    async def _read_again(self, drive: DriveContext, calls: Sequence[Call]) -> bool:
        """Whether something is gone. What is left is kept for this drive alone."""
        searches = [call for call in calls if call.tool == SEARCH and call.status is CallStatus.OK]
        refs: dict[str, Ref] = {ref.chunk_id: ref for call in searches for ref in call.refs}
        if not refs:
            return False
        try:
            citations = await self._tools.resolve(drive.run, list(refs))
        except PlacetError as error:
            if error.retryable:
                raise
            citations = ()
        drive.pieces = {c.chunk_id: from_citation(c, refs[c.chunk_id]) for c in citations if c.chunk_id in refs}
        drive.bodies |= {call.call_id: {} for call in searches}
        return len(drive.pieces) < len(refs)
