"""How a run ends: audited, then told to everybody, then cleaned up after."""

from __future__ import annotations

from dataclasses import dataclass

from placet.observability import logs, metrics
from services.agent.domain.memory import summary_of
from services.agent.domain.run import Run
from services.agent.ports import Draft, RunLog, Summaries, Trail

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class RunEnding:
    """Implements `Ending`."""

    trail: Trail
    summaries: Summaries

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
        await run_log.append("run-completed", data)
        metrics.RUNS.labels(draft.finish.value).inc()
        log.info("run completed", run_id=run.run_id, finish_reason=draft.finish.value)
        if draft.memorable:
            await self.summaries.save(run, summary_of(run.question, draft.answer))
