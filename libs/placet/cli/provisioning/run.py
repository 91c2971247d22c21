"""Bus, database, demo world, in this order. Every step may be repeated: what is there stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from placet.cli.provisioning.settings import Settings
from placet.messaging.connection import Bus, BusSettings, read_seed

Say = Callable[[str], None]
USER = "provision"


async def provision(settings: Settings, say: Say) -> None:
    """Raises what the bus (`nats.errors.Error`) or the database (`psycopg.Error`) answers, when it refuses."""
    bus = await Bus.connect(
        BusSettings(settings.nats_url, USER, read_seed(settings.nats_seed, settings.nats_seed_file))
    )
    try:
        await asyncio.gather(_bus(bus, settings, say), _database(settings, say))
        if settings.seed_demo:
            await _demo_world(bus, settings, say)
    finally:
        await bus.close()


async def _bus(bus: Bus, settings: Settings, say: Say) -> None:
    from placet.messaging.provision import provision as provision_bus

    started = time.monotonic()
    streams = await provision_bus(bus, replicas=settings.nats_replicas)
    say(f"bus: {len(streams)} streams and buckets … {time.monotonic() - started:.1f} s")


async def _database(settings: Settings, say: Say) -> None:
    from placet.cli.provisioning.database import prepare

    started = time.monotonic()
    await prepare(settings)
    say(f"database: roles and migrations … {time.monotonic() - started:.1f} s")


async def _demo_world(bus: Bus, settings: Settings, say: Say) -> None:
    from placet.cli.provisioning.demo_world import load

    started = time.monotonic()
    counts = await load(bus, settings)
    added = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing new"
    say(f"demo world: {added} … {time.monotonic() - started:.1f} s")
