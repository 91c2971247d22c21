"""Wiring of the memory service, and its life from start to drained stop."""

from __future__ import annotations

from dataclasses import dataclass

from placet.identity import keys
from placet.identity.grants import GrantVerifier
from placet.messaging.connection import Bus, BusSettings, read_seed
from placet.messaging.kv import KeyValue
from placet.messaging.rpc import RpcServer
from placet.observability import logs
from placet.observability.health import HealthServer
from placet.observability.lifecycle import run, run_until_stopped
from services.memory.adapters.kv_store import KvSummaryStore
from services.memory.handlers import Summaries
from services.memory.settings import Settings

OWNER = "memory"


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything that runs; `stop` undoes `start` in reverse."""

    bus: Bus
    rpc: RpcServer
    health: HealthServer

    async def start(self) -> None:
        await self.rpc.start()
        await self.health.start()

    async def stop(self) -> None:
        await self.rpc.stop()
        await self.health.stop()
        await self.bus.close()


async def build(settings: Settings) -> Memory:
    bus = await Bus.connect(
        BusSettings(settings.nats_url, OWNER, read_seed(settings.nats_seed, settings.nats_seed_file))
    )
    summaries = Summaries(KvSummaryStore(KeyValue(bus, "MEMORY")), GrantVerifier(keys.read(settings.grant_public_file)))
    routes = {
        "get-summary": summaries.on_get,
        "save-summary": summaries.on_save,
        "forget-summary": summaries.on_forget,
    }
    rpc = RpcServer(bus, OWNER, routes, concurrency=settings.memory_concurrency)
    return Memory(bus, rpc, HealthServer(settings.health_port, {"bus": bus.ready}, settings.health_host))


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
