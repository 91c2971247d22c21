"""The job behind an upload: a version's file is read into the index (K1).

The job may come twice and be taken over at any point: what has been done is on the version, and only what is missing
is done. A file that cannot be read ends the job as a failed version; something that is away makes it come again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from placet.audit.trail import AuditTrail
from placet.contracts.documents import VersionFailed, VersionProgress, VersionReady, VersionReceived
from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge.models import Reading
from placet.messaging.work_queue import Job
from placet.observability import logs
from services.tool_executor.ports import KnowledgeEvents, Versions

log = logs.get(__name__)

# A worker that dies of a file would die of it again and again.
MOST_CRASHES = 5
_PROGRESS_STEP = 10


@dataclass(frozen=True, slots=True)
class ReadingJobs:
    versions: Versions
    events: KnowledgeEvents
    audit: AuditTrail

    async def on_job(self, job: Job) -> None:
        """Raises `PlacetError` when something this needs is away: the queue brings the job again."""
        tenant, received = job.event.tenant, VersionReceived.model_validate(job.event.envelope.data)
        try:
            reading = await self._read(tenant, received, job.attempt)
        except PlacetError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            log.warning("a job for a version that does not exist", document=received.document_id)
            return
        await self._tell_end(tenant, reading)

    async def _read(self, tenant: str, received: VersionReceived, attempt: int) -> Reading:
        told = -_PROGRESS_STEP

        async def tell(reading: Reading) -> None:
            nonlocal told
            if reading.percent >= told + _PROGRESS_STEP or reading.state != "indexing":
                told = reading.percent
                progress = VersionProgress(
                    document_id=reading.document_id,
                    version=reading.version,
                    state=reading.state,
                    percent=reading.percent,
                )
                await self.events.write(tenant, "version-progress", reading.document_id, progress)

        try:
            return await self.versions.read(tenant, received.document_id, received.version, tell)
        except PlacetError:
            raise
        except Exception:
            if attempt < MOST_CRASHES:
                raise
            log.exception("a file could not be read, again and again", document=received.document_id)
            return await self.versions.give_up(tenant, received.document_id, received.version)

    async def _tell_end(self, tenant: str, reading: Reading) -> None:
        failed = reading.state == "failed"
        name, document_id = "version-failed" if failed else "version-ready", reading.document_id
        event = (
            VersionFailed(document_id=document_id, version=reading.version, reason=reading.reason or "")
            if failed
            else VersionReady(document_id=document_id, version=reading.version, chunks=reading.chunks)
        )
        await self.events.write(tenant, name, document_id, event)
        await self.audit.record(
            tenant,
            "document-changed",
            action="documents.read",
            outcome="failed" if failed else "ok",
            resource={"type": "document", "id": document_id},
            result={"version": reading.version, "chunks": reading.chunks, "reason": reading.reason},
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """Takes up what died between two steps: versions without a job, uploads without an end. Any replica may."""

    versions: Versions
    events: KnowledgeEvents
    every_s: float

    async def run(self) -> None:
        """For ever; a failure is logged and tried again."""
        while True:
            with suppress(PlacetError):
                await self.once()
            await asyncio.sleep(self.every_s)

    async def once(self) -> None:
        """Raises `PlacetError` when database or bus are away."""
        for tenant, forgotten in await self.versions.forgotten():
            log.warning("a version waits for its reading", document=forgotten.document_id, version=forgotten.version)
            await self.events.write(tenant, "version-received", forgotten.document_id, forgotten)
        await self.versions.sweep_uploads()
