"""Wiring of the approval service, and its life from start to drained stop."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from placet.audit.sealer import Sealer
from placet.audit.trail import AuditTrail
from placet.contracts.envelope import now
from placet.contracts.topology import DURABLES, Durable
from placet.identity import keys
from placet.identity.grants import GrantVerifier
from placet.identity.signing import EventSigner, EventVerifier
from placet.messaging.append import Appender, AuditWriter
from placet.messaging.archive import BusArchive
from placet.messaging.connection import Bus, BusSettings, read_seed
from placet.messaging.directory import KvDirectory
from placet.messaging.kv import KeyValue
from placet.messaging.reading import EventReader
from placet.messaging.rpc import Handler, RpcClient, RpcServer
from placet.messaging.seals import SealStream
from placet.messaging.timers import Timers
from placet.messaging.work_queue import JobHandler, SignalQueue, WorkQueue
from placet.observability import logs
from placet.observability.health import HealthServer
from placet.observability.lifecycle import run, run_until_stopped
from placet.policy.port import PolicyDecisionPoint
from placet.policy.select import open_policy
from placet.policy.watch import PolicyWatch
from placet.storage import Database
from services.approval.adapters.assessor import ExecutorAssessor
from services.approval.adapters.audit_pages import StreamAuditPages
from services.approval.adapters.bus_clock import BusClock
from services.approval.adapters.ledger import StreamEffectLedger
from services.approval.adapters.listing import PostgresListing
from services.approval.adapters.open_proposals import KvOpenProposals
from services.approval.adapters.run_ends import StreamRunEnds
from services.approval.adapters.seal_book import StreamSealBook
from services.approval.adapters.stream_log import StreamProposalLog
from services.approval.handlers.decisions import Decisions
from services.approval.handlers.eligibility import Judge
from services.approval.handlers.ending import Ending
from services.approval.handlers.interest import Interest
from services.approval.handlers.proposing import Proposing
from services.approval.handlers.queries import Queries
from services.approval.handlers.reactions import Reactions
from services.approval.handlers.rebuilding import Rebuilding
from services.approval.handlers.records import DecisionRecords
from services.approval.handlers.regrading import Regrading
from services.approval.handlers.sealing import Sealing
from services.approval.ports import Clock
from services.approval.settings import Settings

OWNER = "approval"
_REACTIONS = 32  # events worked on at a time, per durable
_DURABLES: dict[str, Durable] = {durable.name: durable for durable in DURABLES}


@dataclass(frozen=True, slots=True)
class Approval:
    """Everything that runs; `stop` undoes `start` in reverse."""

    bus: Bus
    database: Database
    policy: PolicyDecisionPoint
    rpc: RpcServer
    queues: tuple[WorkQueue | SignalQueue, ...]
    time: BusClock
    watch: PolicyWatch
    sealing: Sealing
    health: HealthServer

    async def start(self) -> None:
        await self.time.start()
        for queue in self.queues:
            await queue.start()
        await self.rpc.start()
        await self.watch.start()
        await self.sealing.start()
        await self.health.start()

    async def stop(self) -> None:
        await self.rpc.stop()
        await self.watch.stop()
        for queue in self.queues:
            await queue.stop()
        await self.time.stop()
        await self.sealing.stop()
        await self.health.stop()
        await self.policy.close()
        await self.database.close()
        await self.bus.close()


async def build(settings: Settings, *, clock: Clock = now) -> Approval:
    """`clock` is this machine's; what counts is the bus's, which it is compared with."""
    bus_settings = BusSettings(settings.nats_url, OWNER, read_seed(settings.nats_seed, settings.nats_seed_file))
    bus = await Bus.connect(bus_settings)
    database = Database.open(settings.database_url, application=OWNER)
    policy = await open_policy(settings.policy_engine, policy_dir=settings.policy_dir, opa_url=settings.opa_url)

    signing_key = keys.read(settings.approval_signing_key_file)
    signer = EventSigner(signing_key)
    own = EventVerifier([signing_key], signer)
    effects = EventVerifier([keys.read(settings.effect_public_file)])
    audit = AuditTrail(AuditWriter(bus), OWNER)
    time = BusClock(KeyValue(bus, "OPEN_PROPOSALS"), clock)
    log = StreamProposalLog(
        Appender(bus, OWNER, "APPROVALS", signer, time), EventReader(bus, "APPROVALS", own), audit, time
    )
    ledger = StreamEffectLedger(EventReader(bus, "EFFECTS", effects))
    listing = PostgresListing(database)
    judge = Judge(KvDirectory(KeyValue(bus, "DIRECTORY")), policy)
    grants = GrantVerifier(keys.read(settings.grant_public_file))
    desk = KvOpenProposals(KeyValue(bus, "OPEN_PROPOSALS"))
    assessor = ExecutorAssessor(RpcClient(bus))
    ending = Ending(log, audit, Interest(StreamRunEnds(EventReader(bus, "RUNS"))))
    proposing = Proposing(log, Timers(bus, OWNER), desk, ending, time)
    decisions = Decisions(log, judge, assessor, grants, audit, ending, time)
    queries = Queries(log, ledger, listing, judge, grants, StreamAuditPages(EventReader(bus, "AUDIT")), ending, time)
    regrading = Regrading(log, listing, judge, assessor, ending, time)
    reactions = Reactions(log, listing, ending, regrading, DecisionRecords(audit), time)

    rpc = RpcServer(bus, OWNER, _routes(proposing, decisions, queries), concurrency=settings.approval_concurrency)
    queues = _queues(bus, audit, reactions, own, effects)
    watch = PolicyWatch(policy, regrading.on_policy)
    health = HealthServer(
        settings.health_port,
        {"bus": bus.ready, "policy": policy.ready, "database": listing.ready},
        settings.health_host,
    )
    return Approval(bus, database, policy, rpc, queues, time, watch, _sealing(bus, audit, settings), health)


def _sealing(bus: Bus, audit: AuditTrail, settings: Settings) -> Sealing:
    key = keys.read(settings.audit_signing_key_file)
    book = StreamSealBook(SealStream(bus, EventSigner(key), EventVerifier([key])), audit)
    return Sealing(Sealer(book, BusArchive(bus)), settings.approval_seal_interval_s)


def _routes(proposing: Proposing, decisions: Decisions, queries: Queries) -> Mapping[str, Handler]:
    return {
        "propose": proposing.on_propose,
        "decide": decisions.on_decide,
        "withdraw": decisions.on_withdraw,
        "get-proposal": queries.on_get,
        "list-proposals": queries.on_list,
        "list-proposal-events": queries.on_events,
        "query-audit": queries.on_query_audit,
    }


def _queues(
    bus: Bus, audit: AuditTrail, reactions: Reactions, own: EventVerifier, effects: EventVerifier
) -> tuple[WorkQueue | SignalQueue, ...]:
    def queue(name: str, handler: JobHandler, verifier: EventVerifier) -> WorkQueue:
        durable = _DURABLES[name]
        return WorkQueue(bus, durable, handler, concurrency=_REACTIONS, verifier=verifier, alarm=audit.bad_message)

    return (
        queue("approval__effect-finished-v1", reactions.on_effect_finished, effects),
        queue("approval__decided-v1", reactions.on_decided, own),
        SignalQueue(bus, _DURABLES["approval__projection-v1"], reactions.on_stored, concurrency=_REACTIONS),
        SignalQueue(bus, _DURABLES["approval__timers-v1"], reactions.on_timer),
        SignalQueue(bus, _DURABLES["approval__directory-v1"], reactions.regrading.on_directory_change),
    )


async def rebuild_listing(settings: Settings) -> int:
    """Make the listing anew from the stream, beside whatever runs; returns the number of proposals."""
    bus = await Bus.connect(
        BusSettings(settings.nats_url, OWNER, read_seed(settings.nats_seed, settings.nats_seed_file))
    )
    database = Database.open(settings.database_url, application=OWNER)
    key = keys.read(settings.approval_signing_key_file)
    log = StreamProposalLog(
        Appender(bus, OWNER, "APPROVALS"),
        EventReader(bus, "APPROVALS", EventVerifier([key])),
        AuditTrail(AuditWriter(bus), OWNER),
    )
    try:
        return await Rebuilding(log, log, PostgresListing(database)).run()
    finally:
        await database.close()
        await bus.close()


async def serve(settings: Settings) -> None:
    service = await build(settings)
    await service.start()
    logs.get(__name__).info("ready")
    await run_until_stopped()
    await service.stop()


def main() -> None:
    settings = Settings()
    logs.configure(OWNER, settings.log_level)
    if sys.argv[1:] == ["rebuild-listing"]:
        run(_rebuild(settings))
    else:
        run(serve(settings))


async def _rebuild(settings: Settings) -> None:
    logs.get(__name__).info("listing rebuilt", proposals=await rebuild_listing(settings))
