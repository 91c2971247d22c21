"""Wiring of the tool-executor, and its life from start to drained stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from placet.audit.trail import AuditTrail
from placet.contracts.topology import DURABLES
from placet.identity import keys
from placet.identity.grants import GrantVerifier
from placet.identity.signing import EventSigner, EventVerifier
from placet.knowledge.embedders import embedder_named, embedder_of
from placet.knowledge.intake import Intake
from placet.knowledge.leftovers import Leftovers
from placet.knowledge.rebuilding import Rebuilding
from placet.knowledge.store import KnowledgeStore
from placet.messaging.append import Appender, AuditWriter, EventWriter
from placet.messaging.connection import Bus, BusSettings, read_seed
from placet.messaging.directory import KvDirectory
from placet.messaging.kv import KeyValue
from placet.messaging.objects import ObjectStore
from placet.messaging.reading import EventReader
from placet.messaging.rpc import Handler, RpcClient, RpcServer
from placet.messaging.work_queue import JobHandler, WorkQueue
from placet.observability import logs
from placet.observability.health import HealthServer
from placet.observability.lifecycle import run, run_until_stopped
from placet.policy.port import PolicyDecisionPoint
from placet.policy.select import open_policy
from placet.policy.watch import PolicyWatch
from placet.storage import Database
from placet.toolkit import PackEnvironment
from placet.toolkit.pack import ToolPack
from placet.toolkit.registry import ToolRegistry, discover
from services.tool_executor.adapters.approvals import RpcApprovals
from services.tool_executor.adapters.counters import KvRunCounters
from services.tool_executor.adapters.documents import StoredDocuments
from services.tool_executor.adapters.ledger import OWNER, StreamLedger
from services.tool_executor.adapters.presence import Presence
from services.tool_executor.adapters.proposals import StreamProposals
from services.tool_executor.adapters.scope import scope_of
from services.tool_executor.adapters.spending import KvTenantSpending
from services.tool_executor.adapters.uploads import StoredUploads
from services.tool_executor.adapters.versions import StoredVersions
from services.tool_executor.domain.facts import RunLimits
from services.tool_executor.handlers.assess import Assessments
from services.tool_executor.handlers.assessment import Assessor
from services.tool_executor.handlers.commit import Commits
from services.tool_executor.handlers.document_changes import DocumentChanges
from services.tool_executor.handlers.document_rights import DocumentRights
from services.tool_executor.handlers.documents import DocumentCalls
from services.tool_executor.handlers.effects import EffectRunner
from services.tool_executor.handlers.evidence import EvidenceOfNow
from services.tool_executor.handlers.execute import ToolCalls
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.handlers.offer import Offer
from services.tool_executor.handlers.open_effects import OpenEffects
from services.tool_executor.handlers.packets import Packets
from services.tool_executor.handlers.people import People
from services.tool_executor.handlers.proposing import Proposing
from services.tool_executor.handlers.reading import ReadingJobs, Sweep
from services.tool_executor.handlers.rebuilds import RebuildCalls
from services.tool_executor.handlers.records import CallRecords
from services.tool_executor.handlers.rollbacks import Rollbacks
from services.tool_executor.handlers.settle import Settlements
from services.tool_executor.handlers.slots import TenantSlots
from services.tool_executor.handlers.unpublished import UnpublishedTexts
from services.tool_executor.handlers.uploads import UploadCalls
from services.tool_executor.settings import Settings

_DURABLES = {durable.name: durable for durable in DURABLES}
_OPEN_CONCURRENCY = 8


@dataclass(frozen=True, slots=True)
class DocumentRooms:
    """Everything about documents that is no tool: calls by name, the queues of reading, the sweep."""

    stored: StoredDocuments
    routes: Mapping[str, Handler]
    queues: tuple[WorkQueue, ...]
    sweep: Sweep


@dataclass(frozen=True, slots=True)
class ToolExecutor:
    """Everything that runs; `stop` undoes `start` in reverse."""

    bus: Bus
    database: Database
    policy: PolicyDecisionPoint
    registry: ToolRegistry
    environment: PackEnvironment
    rpc: RpcServer
    queues: tuple[WorkQueue, ...]
    presence: Presence
    watch: PolicyWatch
    sweep: Sweep
    health: HealthServer
    background: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        await self.registry.open(self.environment)
        await self.watch.start()
        await self.presence.start()
        await self.rpc.start()
        for queue in self.queues:
            await queue.start()
        self.background.add(asyncio.create_task(self.sweep.run()))
        await self.health.start()

    async def stop(self) -> None:
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        await self.rpc.stop()
        await self.watch.stop()
        for queue in self.queues:
            await queue.stop()
        await self.health.stop()
        await self.presence.stop()
        await self.registry.close()
        await self.policy.close()
        await self.database.close()
        await self.bus.close()


async def build(settings: Settings, packs: Iterable[ToolPack] | None = None) -> ToolExecutor:
    """`packs` in place of the installed ones: for who embeds the executor with tools of their own."""
    seed = read_seed(settings.nats_seed, settings.nats_seed_file)
    bus = await Bus.connect(BusSettings(settings.nats_url, OWNER, seed))
    policy = await open_policy(settings.policy_engine, policy_dir=settings.policy_dir, opa_url=settings.opa_url)
    database = Database.open(settings.database_url, application=OWNER)
    registry = ToolRegistry(discover() if packs is None else packs)
    originals = ObjectStore(bus, "ORIGINALS")
    audit = AuditTrail(AuditWriter(bus), OWNER)

    signing_key = keys.read(settings.effect_signing_key_file)
    signer = EventSigner(signing_key)
    own = EventVerifier([signing_key], signer)
    ledger = StreamLedger(
        Appender(bus, OWNER, "EFFECTS", signer),
        EventReader(bus, "EFFECTS", own),
        audit,
    )
    directory = KvDirectory(KeyValue(bus, "DIRECTORY"))
    callers = Callers(GrantVerifier(keys.read(settings.grant_public_file)), directory, policy)
    assessor = Assessor(registry, policy)
    counters = KeyValue(bus, "COUNTERS")
    effects = EffectRunner(ledger, KvTenantSpending(counters), worker=socket.gethostname())
    presence = Presence(KeyValue(bus, "PRESENCE"), socket.gethostname())
    limits = RunLimits(settings.tool_executor_run_tool_calls, settings.tool_executor_run_spend)
    offer = Offer(callers, registry, policy)
    approvals = EventVerifier([keys.read(settings.approval_public_file)])
    packets = Packets(registry, assessor)
    records = CallRecords(audit, registry)
    approval_service = RpcApprovals(RpcClient(bus))
    proposals = StreamProposals(EventReader(bus, "APPROVALS", approvals))
    proposing = Proposing(approval_service, proposals, packets, records)
    calls = ToolCalls(
        callers=callers,
        registry=registry,
        offer=offer,
        assessor=assessor,
        effects=effects,
        ledger=ledger,
        proposing=proposing,
        counters=KvRunCounters(counters),
        records=records,
        limits=limits,
        slots=TenantSlots(presence),
    )
    documents = _documents(bus, database, originals, callers, audit, assessor, settings)
    people = People(callers, directory, audit)
    settlements = Settlements(callers, registry, effects, ledger, audit)
    evidence = EvidenceOfNow(policy, documents.stored)
    commits = Commits(
        callers, registry, assessor, effects, ledger, audit, evidence, attempts=settings.tool_executor_effect_attempts
    )
    open_effects = OpenEffects(
        callers,
        registry,
        effects,
        ledger,
        audit,
        longest_wait_s=settings.tool_executor_lookup_interval_s,
        abandoned_after_s=settings.tool_executor_abandoned_after_s,
    )

    rollbacks = Rollbacks(callers, registry, assessor, packets, approval_service, proposals, audit)

    routes: Mapping[str, Handler] = {
        "execute-tool": calls.on_execute,
        "list-tools": offer.on_list,
        "assess-action": Assessments(callers, registry, assessor, packets, limits).on_assess,
        **documents.routes,
        "get-person": people.on_get,
        "put-person": people.on_put,
        "settle-effect": settlements.on_settle,
    }
    checks = {"bus": bus.ready, "policy": policy.ready, "tools": registry.ready}
    return ToolExecutor(
        bus=bus,
        database=database,
        policy=policy,
        registry=registry,
        environment=PackEnvironment(
            settings.database_url, originals, scope_of(policy), settings.pack_settings, settings.readonly_database_url
        ),
        rpc=RpcServer(bus, OWNER, routes, concurrency=settings.tool_executor_concurrency),
        queues=(
            _queue(bus, audit, approvals, "approved", commits.on_approved, settings.tool_executor_effect_concurrency),
            _queue(bus, audit, own, "claimed", open_effects.on_claimed, _OPEN_CONCURRENCY),
            _queue(bus, audit, own, "unknown", open_effects.on_unknown, _OPEN_CONCURRENCY),
            _queue(bus, audit, own, "verification-failed", rollbacks.on_verification_failed, _OPEN_CONCURRENCY),
            *documents.queues,
        ),
        watch=PolicyWatch(policy),
        sweep=documents.sweep,
        presence=presence,
        health=HealthServer(settings.health_port, checks, settings.health_host),
    )


def _queue(
    bus: Bus, audit: AuditTrail, verifier: EventVerifier, event: str, handler: JobHandler, concurrency: int
) -> WorkQueue:
    durable = _DURABLES[f"tool-executor__{event}-v1"]
    return WorkQueue(bus, durable, handler, concurrency=concurrency, verifier=verifier, alarm=audit.bad_message)


def _documents(
    bus: Bus,
    database: Database,
    originals: ObjectStore,
    callers: Callers,
    audit: AuditTrail,
    assessor: Assessor,
    settings: Settings,
) -> DocumentRooms:
    others = partial(embedder_named, settings=settings.pack_settings)
    store = KnowledgeStore(database, originals, embedder_of(settings.pack_settings), others=others)
    rights, stored = DocumentRights(callers, audit), StoredDocuments(store)
    calls = DocumentCalls(rights, stored, UnpublishedTexts(assessor, stored))
    changes = DocumentChanges(rights, stored, audit)
    events = EventWriter(bus, "knowledge")
    uploads = UploadCalls(
        rights,
        StoredUploads(Intake(database), originals),
        events,
        audit,
        max_bytes=settings.tool_executor_upload_bytes,
    )
    versions = StoredVersions(store.indexing, Leftovers(database, originals))
    jobs = ReadingJobs(versions, events, audit)
    rebuilds = RebuildCalls(rights, Rebuilding(database, store.indexing), events, audit)
    return DocumentRooms(
        stored=stored,
        routes={
            "resolve-citations": calls.on_resolve,
            "list-documents": calls.on_list,
            "get-document": calls.on_get,
            "read-source": calls.on_source,
            "begin-upload": uploads.on_begin,
            "upload-part": uploads.on_part,
            "finish-upload": uploads.on_finish,
            "set-document-acl": changes.on_acl,
            "withdraw-document": changes.on_withdraw,
            "start-rebuild": rebuilds.on_start,
            "get-rebuild": rebuilds.on_get,
        },
        queues=tuple(
            WorkQueue(bus, _DURABLES[f"tool-executor__{event}-v1"], work, concurrency=at_once, alarm=audit.bad_message)
            for event, work, at_once in (
                ("version-received", jobs.on_job, settings.tool_executor_readings_at_once),
                ("rebuild-started", rebuilds.on_job, 1),
            )
        ),
        sweep=Sweep(versions, events, settings.tool_executor_sweep_s),
    )


async def serve(settings: Settings) -> None:
    service = await build(settings)
    await service.start()
    logs.get(__name__).info("ready")
    await run_until_stopped()
    await service.stop()


def main() -> None:
    settings = Settings()
    logs.configure(OWNER, settings.log_level)
    run(serve(settings))
