"""Rebuilding the index, asked for by whom policy lets, done as a job that any worker takes over."""

from __future__ import annotations

from dataclasses import dataclass

from placet.audit.trail import AuditTrail
from placet.contracts.digests import derived_id
from placet.contracts.documents import GetRebuild, RebuildProgress, RebuildState, StartRebuild
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.policy import Resource
from placet.identity.grants import Purpose
from placet.knowledge.models import Rebuild
from placet.messaging.rpc import Call
from placet.messaging.work_queue import Job
from services.tool_executor.handlers.document_rights import DocumentRights
from services.tool_executor.handlers.identity import Caller
from services.tool_executor.ports import KnowledgeEvents, Rebuilds

_DUTY = "documents.reindex"


@dataclass(frozen=True, slots=True)
class RebuildCalls:
    rights: DocumentRights
    rebuilds: Rebuilds
    events: KnowledgeEvents
    audit: AuditTrail

    async def on_start(self, call: Call, command: StartRebuild) -> RebuildState:
        """Start, or join the one that goes on; its job is said again, for it may have been lost with its worker."""
        caller = await self._authorized(call, command.grant)
        made = derived_id("rebuild", call.tenant, caller.person.id, command.rebuild_id)
        rebuild = await self.rebuilds.start(call.tenant, made, caller.person.id)
        if not rebuild.finished:
            await self.events.write(
                call.tenant, "rebuild-started", rebuild.rebuild_id, _progress(rebuild), once=rebuild.rebuild_id
            )
        await self.audit.record(
            call.tenant,
            "document-changed",
            action=_DUTY,
            outcome="ok",
            actor=caller.person.id,
            roles=caller.person.roles,
            resource={"type": "index", "id": rebuild.rebuild_id},
            result={"versions": rebuild.total},
        )
        return _state(rebuild)

    async def on_get(self, call: Call, command: GetRebuild) -> RebuildState:
        await self._authorized(call, command.grant)
        return _state(await self.rebuilds.status(call.tenant, command.rebuild_id))

    async def on_job(self, job: Job) -> None:
        """Raises `PlacetError` when something this needs is away: the queue brings the job again."""
        tenant, rebuild_id = job.event.tenant, job.event.entity

        async def tell(rebuild: Rebuild) -> None:
            if (rebuild.done + rebuild.failed) * 20 % max(1, rebuild.total) < 20:
                await self.events.write(tenant, "rebuild-progress", rebuild_id, _progress(rebuild))

        try:
            rebuild = await self.rebuilds.run(tenant, rebuild_id, tell)
        except PlacetError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return
        await self.events.write(tenant, "rebuild-finished", rebuild_id, _progress(rebuild))

    async def _authorized(self, call: Call, grant: str) -> Caller:
        caller = await self.rights.callers.of(grant, call.tenant, purpose=Purpose.REQUEST)
        answer = await self.rights.callers.duty(caller, _DUTY)
        if not answer.allowed:
            await self.rights.refused(caller, _DUTY, Resource(type="index", id=call.tenant))
            raise not_found()
        return caller


def _progress(rebuild: Rebuild) -> RebuildProgress:
    return RebuildProgress(rebuild_id=rebuild.rebuild_id, total=rebuild.total, done=rebuild.done, failed=rebuild.failed)


def _state(rebuild: Rebuild) -> RebuildState:
    return RebuildState(
        rebuild_id=rebuild.rebuild_id,
        total=rebuild.total,
        done=rebuild.done,
        failed=rebuild.failed,
        state="finished" if rebuild.finished else "running",
    )
