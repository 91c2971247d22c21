"""Wiring of the agent service, and its life from start to drained stop."""

from __future__ import annotations

from dataclasses import dataclass

from placet.audit.trail import AuditTrail
from placet.contracts.topology import DURABLES, Durable
from placet.identity import keys
from placet.identity.grants import GrantVerifier
from placet.identity.signing import EventVerifier
from placet.messaging.append import AuditWriter
from placet.messaging.connection import Bus, BusSettings, read_seed
from placet.messaging.kv import KeyValue
from placet.messaging.rpc import RpcClient, RpcServer
from placet.messaging.work_queue import WorkQueue
from placet.observability import logs
from placet.observability.context import new_id
from placet.observability.health import HealthServer
from placet.observability.lifecycle import run, run_until_stopped
from services.agent.adapters.checkpoints.saver import Checkpoints
from services.agent.adapters.control import KvRunControl
from services.agent.adapters.costs import KvTenantCosts
from services.agent.adapters.graph.build import Services
from services.agent.adapters.graph.build import build as build_graph
from services.agent.adapters.graph.engine import GraphEngine
from services.agent.adapters.graph.reconsider import Reconsideration
from services.agent.adapters.leases import KvLeases, LeaseTimes
from services.agent.adapters.models.choose import choose_model
from services.agent.adapters.run_log import StreamRunLogs
from services.agent.adapters.services import ApprovalProposals, ExecutorDoor, MemorySummaries
from services.agent.domain.limits import Limits
from services.agent.handlers.driver import Driver
from services.agent.handlers.ending import RunEnding
from services.agent.handlers.rights import Rights
from services.agent.handlers.runs import Runs
from services.agent.settings import Settings

OWNER = "agent"
_DURABLES: dict[str, Durable] = {durable.name: durable for durable in DURABLES}


@dataclass(frozen=True, slots=True)
class Agent:
    """Everything that runs; `stop` undoes `start` in reverse."""

    bus: Bus
    checkpoints: Checkpoints
    driver: Driver
    queues: tuple[WorkQueue, ...]
    rpc: RpcServer
    health: HealthServer

    async def start(self) -> None:
        await self.checkpoints.open()
        await self.rpc.start()
        for queue in self.queues:
            await queue.start()
        await self.health.start()

    async def stop(self) -> None:
        await self.rpc.stop()
        self.driver.drain()
        for queue in self.queues:
            await queue.stop()
        await self.health.stop()
        await self.checkpoints.close()
        await self.bus.close()


async def build(settings: Settings) -> Agent:
    bus = await Bus.connect(
        BusSettings(settings.nats_url, OWNER, read_seed(settings.nats_seed, settings.nats_seed_file))
    )
    checkpoints = Checkpoints(settings.database_url, settings.agent_database_pool, settings.agent_checkpoint_key_file)
    limits = _limits(settings)
    rpc_client = RpcClient(bus)
    trail = AuditTrail(AuditWriter(bus), OWNER)
    run_logs = StreamRunLogs(bus, limits)
    control_bucket = KeyValue(bus, "RUN_CONTROL")
    control = KvRunControl(control_bucket)
    summaries = MemorySummaries(rpc_client)
    model, model_name = choose_model(settings)
    ending = RunEnding(trail, summaries, model)
    logs.get(__name__).info("model chosen", model=model_name)

    costs = KvTenantCosts(control_bucket)
    tools, proposals = ExecutorDoor(rpc_client), ApprovalProposals(rpc_client)
    graph = build_graph(Services(tools, model, summaries, ending, trail, costs))
    rights = Rights(control, tools, proposals, trail)
    times = LeaseTimes(settings.agent_lease_ttl_s, settings.agent_lease_renew_s)
    driver = Driver(
        leases=KvLeases(KeyValue(bus, "LEASES"), new_id(OWNER), times),
        logs=run_logs,
        control=control,
        engine=GraphEngine(graph, checkpoints, limits, Reconsideration(tools, trail), model.version),
        ending=ending,
        proposals=proposals,
        rights=rights,
        max_failures=settings.agent_max_failures,
    )
    runs = Runs(GrantVerifier(keys.read(settings.grant_public_file)), run_logs, control, driver, trail)
    health = HealthServer(settings.health_port, {"bus": bus.ready, "database": checkpoints.ready}, settings.health_host)
    rpc = RpcServer(bus, OWNER, {"cancel-run": runs.on_cancel_run})
    return Agent(bus, checkpoints, driver, _queues(bus, runs, rights, trail, settings), rpc, health)


def _limits(settings: Settings) -> Limits:
    return Limits(
        steps=settings.agent_max_steps,
        tool_calls=settings.agent_max_tool_calls,
        tokens=settings.agent_max_tokens,
        wall_s=settings.agent_max_wall_s,
        parallel=settings.agent_max_parallel,
        tenant_cost=settings.agent_tenant_cost_per_day,
        token_price=settings.agent_token_price,
        outage_s=settings.agent_outage_s,
    )


def _queues(bus: Bus, runs: Runs, rights: Rights, trail: AuditTrail, settings: Settings) -> tuple[WorkQueue, ...]:
    """New runs and decisions have slots of their own: a flood of questions does not keep approved work from ending."""
    started = WorkQueue(
        bus,
        _DURABLES["agent__run-queue-v1"],
        runs.on_start_run,
        concurrency=settings.agent_concurrency,
        alarm=trail.bad_message,
    )
    decided = WorkQueue(
        bus,
        _DURABLES["agent__proposal-completed-v1"],
        runs.on_proposal_completed,
        concurrency=settings.agent_concurrency,
        verifier=EventVerifier([keys.read(settings.approval_public_file)]),
        alarm=trail.bad_message,
    )
    changed = WorkQueue(
        bus, _DURABLES["agent__rights-changed-v1"], rights.on_changed, concurrency=4, alarm=trail.bad_message
    )
    return started, decided, changed


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
