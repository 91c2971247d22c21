"""How a run ends: audited, then told to everybody, then cleaned up after."""

from __future__ import annotations

from dataclasses import dataclass

from placet.observability import logs, metrics
from services.agent.domain.memory import summary_of, wants_condensing
from services.agent.domain.run import Run
from services.agent.ports import Draft, Model, RunLog, Summaries, Trail

log = logs.get(__name__)

_CONDENSE_S = 10.0


@dataclass(frozen=True, slots=True)
class RunEnding:
    """Implements `Ending`."""

    trail: Trail
    summaries: Summaries
    model: Model

    async def complete(self, run: Run, run_log: RunLog, draft: Draft) -> None:
        """The audit record comes first: a crash in between repeats it, the other order could lose it."""
        if run_log.record.completed:
            return
        await self.trail.record(
            run.tenant,
            "run-finished",
            action="run",
            outcome=draft.finish.value,
            actor=run.owner,
            run_id=run.run_id,
            result={"citations": [citation.chunk_id for citation in draft.citations]},
        )
        data = {
            "finish_reason": draft.finish.value,
            "answer": draft.answer,
            "citations": [citation.model_dump(mode="json") for citation in draft.citations],
        }
        await run_log.append("run-completed", data, draft.rests_on)
        metrics.RUNS.labels(draft.finish.value).inc()
        log.info("run completed", run_id=run.run_id, finish_reason=draft.finish.value)
        await self._remember(run, draft)

    async def _remember(self, run: Run, draft: Draft) -> None:
        """After the answer is out: nobody waits for this, and losing it costs the next question a hint."""
        if draft.asked is None:
            return
        asked = draft.asked
        if wants_condensing(asked):
            asked = (await self.model.condense(asked, timeout_s=_CONDENSE_S)).text or asked
        await self.summaries.save(run, summary_of(asked, draft.told))
