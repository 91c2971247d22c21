"""Who still waits for a proposal.

A run that gives up on a call cannot know whether the executor is still at work on it. It tells its end first and takes
its proposals back after that; a proposal that is stored later than that finds the end of its run before it is shown.
So whichever comes last sees the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.approval.domain.state import Proposal
from services.approval.ports import RunEnds


@dataclass(frozen=True, slots=True)
class Interest:
    runs: RunEnds

    async def anyone(self, state: Proposal, *, besides: str | None = None) -> bool:
        """Whether somebody else than the run `besides` has a use for a decision: a run that goes on, a call without a
        run, or whoever has to undo an effect."""
        if state.origin.rollback_of is not None:
            return True
        for run_id in {state.origin.run_id, *(caller.run_id for caller in state.joined)}:
            if run_id is None or (run_id != besides and not await self.runs.ended(state.origin.tenant, run_id)):
                return True
        return False
