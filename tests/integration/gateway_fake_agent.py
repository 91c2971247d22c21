"""A small real stand-in of the agent: it takes jobs and appends the events of runs."""

from __future__ import annotations

from typing import Any

from gateway_fakes import Service, citation
from pydantic import BaseModel

from placet.contracts import runs
from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.topology import DURABLES
from placet.identity.grants import Grant, Purpose
from placet.messaging.append import Appender, NewEvent
from placet.messaging.work_queue import Job, WorkQueue

RUN_QUEUE = next(durable for durable in DURABLES if durable.name == "agent__run-queue-v1")


class FakeAgent(Service):
    """Drives runs by the first word of the question: `answer …`, `refund …`, `hold …` (started, then silent)."""

    async def open(self) -> None:
        self.runs: dict[str, runs.RunEvent] = {}
        self.jobs: list[Job] = []
        self._appender = Appender(self.bus, "agent", "RUNS")
        self._positions: dict[str, int] = {}
        self._queue: WorkQueue | None = None
        await self.start({"cancel-run": self.on_cancel})
        await self.take_jobs()

    async def take_jobs(self) -> None:
        self._queue = WorkQueue(self.bus, RUN_QUEUE, self.on_job, concurrency=16)
        await self._queue.start()

    async def leave_jobs(self) -> None:
        if self._queue:
            await self._queue.stop()
        self._queue = None

    async def close(self) -> None:
        await self.leave_jobs()
        await self.stop()

    async def on_job(self, job: Job) -> None:
        command = runs.StartRun.model_validate(job.event.envelope.data)
        grant = self.grants.verify(command.grant, job.event.tenant, purpose=Purpose.RUN, run_id=command.run_id)
        self.jobs.append(job)
        if command.run_id in self.runs:
            return
        await self.begin(grant, command.run_id, command.conversation_id)
        word = command.question.split()[0]
        if word == "answer":
            await self.append(command.run_id, "run-routed", {"route": "fixed_rag"})
            await self.append(command.run_id, "message-delta", {"text": "650"})
            await self.complete(command.run_id, "650", ["doc-1:v2:chunk-01"])
        elif word == "refund":
            await self.append(command.run_id, "run-waiting-for-human", waiting_card())

    async def begin(self, grant: Grant, run_id: str, conversation_id: str = "conv-1") -> None:
        started = {"run_id": run_id, "conversation_id": conversation_id}
        self.runs[run_id] = runs.RunEvent(
            run_id=run_id,
            seq=1,
            owner=grant.actor,
            conversation_id=conversation_id,
            data=started,
            node="start",
            limits={"steps": 8},
            started_at=now().isoformat(),
        )
        self._positions[run_id] = 0
        await self._append(grant.tenant, "run-started", self.runs[run_id])

    async def append(
        self,
        run_id: str,
        name: str,
        data: dict[str, Any],
        tenant: str = "acme",
        rests_on: tuple[str, ...] = (),
        waits_for: tuple[str, ...] = (),
    ) -> None:
        last = self.runs[run_id]
        changes = {"seq": last.seq + 1, "data": data, "node": name, "rests_on": rests_on, "waits_for": waits_for}
        self.runs[run_id] = last.model_copy(update=changes)
        await self._append(tenant, name, self.runs[run_id])

    async def complete(
        self,
        run_id: str,
        answer: str,
        chunk_ids: list[str],
        finish_reason: str = "success",
        rests_on: tuple[str, ...] = (),
    ) -> None:
        citations = [citation(chunk_id).model_dump(mode="json") for chunk_id in chunk_ids]
        end = {"finish_reason": finish_reason, "answer": answer, "citations": citations}
        await self.append(run_id, "run-completed", end, rests_on=rests_on)

    async def _append(self, tenant: str, name: str, event: runs.RunEvent) -> None:
        appended = await self._appender.append(
            tenant, NewEvent(name, event.run_id, event), self._positions[event.run_id]
        )
        self._positions[event.run_id] = appended.seq

    async def on_cancel(self, grant: Grant, command: runs.CancelRun) -> BaseModel:
        if grant.purpose is not Purpose.RUN or grant.run_id != command.run_id:
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "not a grant for this run")
        await self.complete(command.run_id, "", [], "cancelled")
        return runs.CancelAccepted(run_id=command.run_id)


def waiting_card() -> dict[str, Any]:
    return {
        "proposal_id": "prop-1",
        "tool": "refund_payment",
        "title": "Refund a payment",
        "risk": "critical_funds",
        "expires_at": "2026-11-30T12:15:00+00:00",
    }
