"""From an empty (or a used) state directory to everything ready."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli import material, people, places
from placet.cli.state_dir import StateDir
from placet.cli.supervisor import environment, errand, house, ports
from placet.cli.supervisor.crew import Crew
from placet.cli.supervisor.journal import Journal
from placet.cli.supervisor.spec import ChildSpec
from placet.client.ready_line import ReadyLine
from placet.policy.select import Engine, EngineChoice, select_engine

if TYPE_CHECKING:
    from placet.storage import EmbeddedPostgres

STORES_TIMEOUT_S = 60.0
PROVISION_TIMEOUT_S = 240.0
SERVICES_TIMEOUT_S = 90.0
_HEALTH = tuple(service for service in environment.SERVICES if service != "gateway")


class Boot:
    """One start. `crew` holds what has been started so far, whatever happens."""

    def __init__(self, state: StateDir, crew: Crew, journal: Journal) -> None:
        self.crew = crew
        self.journal = journal
        self._state = state
        self._postgres: EmbeddedPostgres | None = None

    async def run(self, port: int | None, choice: EngineChoice) -> ReadyLine:
        """Raises whatever keeps a child from being ready: `ChildFailedError`, `PortTakenError`, `OSError`, …"""
        started = time.monotonic()
        policies = places.policy_dir()
        engine = await self._choose_engine(choice)
        secrets = material.ensure(self._state.keys, self._state.bus_users, self._state.database_passwords)
        names = ("gateway", "nats", "opa", *_HEALTH)
        wanted = {"gateway": port} if port is not None else None
        chosen = ports.choose(names, self._state.ports, wanted=wanted)

        nats_url, postgres = await self._start_stores(secrets.bus_keys, chosen, engine)
        urls = {role: postgres.url(f"placet_{role}", secrets.database[role]) for role in secrets.database}
        await self._provision(nats_url, postgres.admin_url, secrets.database)
        addresses = environment.Addresses(
            nats_url=nats_url,
            opa_url=f"http://127.0.0.1:{chosen['opa']}",
            gateway_port=chosen["gateway"],
            health={name: chosen[name] for name in _HEALTH},
            database_urls=urls,
        )
        await self.crew.start(
            [self._service(name, addresses, engine, policies) for name in environment.SERVICES], SERVICES_TIMEOUT_S
        )
        self.journal.say(f"ready … {time.monotonic() - started:.1f} s; http://127.0.0.1:{chosen['gateway']}")
        return ReadyLine(
            gateway=f"http://127.0.0.1:{chosen['gateway']}",
            nats=nats_url,
            tokens=material.tokens(self._state.keys, people.DEMO),
            pids={name: self.crew.pid(name) for name in (*environment.SERVICES, "nats")},
            policy_engine=engine.name,
        )

    def release(self) -> None:
        """After the last child has stopped."""
        if self._postgres is not None:
            self._postgres.release()

    async def _choose_engine(self, choice: EngineChoice) -> Engine:
        from placet.policy.bundle import build_bundle

        with self.journal.step("choosing the policy engine"):
            engine = await asyncio.to_thread(select_engine, choice, places.project_dir() / ".placet")
            if engine.binary is not None:
                await asyncio.to_thread(build_bundle, places.policy_dir(), self._state.policy_bundle)
        self.journal.say(f"policy engine: {engine.name}" + (f" ({engine.binary})" if engine.binary else ""))
        return engine

    async def _start_stores(
        self, bus_keys: dict[str, str], chosen: dict[str, int], engine: Engine
    ) -> tuple[str, EmbeddedPostgres]:
        from placet.messaging.server import EmbeddedNats

        nats = EmbeddedNats(self._state.bus, chosen["nats"], bus_keys)
        nats.prepare()
        specs = [house.bus(nats, self._state)]
        if engine.binary is not None:
            specs.append(house.policy_engine(engine.binary, chosen["opa"], self._state))
        async with asyncio.TaskGroup() as group:
            group.create_task(self.crew.start(specs, STORES_TIMEOUT_S))
            database = group.create_task(self._start_database())
        return nats.url, database.result()

    async def _start_database(self) -> EmbeddedPostgres:
        # In a thread: the import takes most of a second, in which the other stores can start.
        await asyncio.to_thread(importlib.import_module, "placet.storage")
        from placet.storage import EmbeddedPostgres

        postgres = EmbeddedPostgres(self._state.postgres)
        with self.journal.step("preparing postgres"):
            await asyncio.to_thread(postgres.prepare)
        self._postgres = postgres
        await self.crew.start([house.database(postgres, self._state)], STORES_TIMEOUT_S)
        return postgres

    async def _provision(self, nats_url: str, admin_url: str, passwords: dict[str, str]) -> None:
        with self.journal.step("provisioning"):
            await errand.run(
                "provisioning",
                [sys.executable, "-m", "placet.cli.main", "provision"],
                environment.of_provisioning(self._state, nats_url, admin_url, passwords),
                log=self._state.log("provision"),
                journal=self.journal,
                timeout_s=PROVISION_TIMEOUT_S,
            )

    def _service(self, name: str, addresses: environment.Addresses, engine: Engine, policies: Path) -> ChildSpec:
        self._state.scratch(name).mkdir(parents=True, exist_ok=True)
        own = environment.of_service(name, self._state, addresses, engine=engine.name, policies=policies)
        health_port = addresses.health.get(name, addresses.gateway_port)
        return house.service(name, own, health_port, self._state)
