"""The stores of the house: nats-server, PostgreSQL and the policy engine, provisioned, killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from placet.cli import material
from placet.cli.provisioning.run import provision
from placet.cli.provisioning.settings import Settings as ProvisionSettings
from placet.cli.state_dir import StateDir
from placet.cli.supervisor.tied import tied
from placet.messaging.connection import Bus, BusSettings
from placet.messaging.credentials import seed_path
from placet.messaging.server import EmbeddedNats
from placet.policy.bundle import build_bundle
from placet.policy.opa_binary import find_opa
from placet.policy.opa_server import OpaServer
from placet.storage import Database, EmbeddedPostgres
from placet.storage.embedded import EmbeddedPostgresError
from placet.testkit.ports import free_port
from tests.chaos.spawners import ROOT

# Documents are not part of these runs; without vectors they are loaded in a moment.
PACK_SETTINGS = {"embedder": "none"}
SOON_S = 12
_READY_S = 120.0


class Stores:
    """Everything that keeps state. `revive_nats` and `revive_postgres` start again what was killed."""

    def __init__(self, state: StateDir) -> None:
        self.state = state
        self.material = material.ensure(state.keys, state.bus_users, state.database_passwords)
        self.nats = EmbeddedNats(state.bus, free_port(), self.material.bus_keys)
        self.postgres = EmbeddedPostgres(state.postgres)
        self.policies = state.root / "policies"
        _copy_policies(self.policies)
        self.policy_environment = {"PLACET_POLICY_ENGINE": "embedded"}
        self._opa: OpaServer | None = None
        self._server: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self.nats.prepare()
        state = self.state
        for directory in (state.log("x").parent, state.postgres):
            directory.mkdir(parents=True, exist_ok=True)
        await asyncio.gather(self.revive_nats(), self.postgres.start(), self._start_policy())
        await provision(self._provision_settings(), lambda _: None)

    async def stop(self) -> None:
        if self._opa:
            await self._opa.stop()
        await self.postgres.stop()
        if self._server:
            self._server.kill()
            self._server.wait()

    def kill_nats(self) -> None:
        if self._server and self._server.poll() is None:
            self._server.kill()

    def kill_postgres(self) -> None:
        if self.postgres.pid:
            with suppress(ProcessLookupError):
                os.kill(self.postgres.pid, signal.SIGKILL)

    async def revive_nats(self) -> None:
        """Until it is ready. One that is killed while it starts is started once more; raises `TimeoutError`."""
        async with asyncio.timeout(_READY_S):
            while True:
                server = await self._start_nats()
                while server.poll() is None:
                    with suppress(TimeoutError):
                        await self.nats.wait_ready(1)
                        return

    async def _start_nats(self) -> subprocess.Popen[bytes]:
        if self._server:
            await asyncio.to_thread(self._server.wait)
        command = tied(self.nats.command(), signal.SIGKILL)
        with self.state.log("nats").open("ab") as log:
            self._server = subprocess.Popen(
                command, env=self.nats.environment(), stdout=log, stderr=log, start_new_session=True
            )
        return self._server

    async def revive_postgres(self) -> None:
        """The same for the database."""
        async with asyncio.timeout(_READY_S):
            while True:
                await self.postgres.kill()
                with suppress(EmbeddedPostgresError):
                    await self.postgres.start(_READY_S)
                    return

    async def bus(self, user: str) -> Bus:
        """A connection of the test's own, past every proxy."""
        seed = seed_path(self.state.bus_users, user).read_text(encoding="utf-8")
        return await Bus.connect(BusSettings(self.nats.url, user, seed))

    def database(self) -> Database:
        """As the owner, past every proxy."""
        return Database.open(self.postgres.url("placet_owner", self.material.database["owner"]))

    async def _start_policy(self) -> None:
        binary = find_opa(ROOT / ".placet")
        if binary is None:
            return
        bundle = self.state.policy_bundle
        await asyncio.to_thread(build_bundle, self.policies, bundle)
        self._opa = await OpaServer.start(binary, bundle, log_file=self.state.log("opa"))
        self.policy_environment = {"PLACET_POLICY_ENGINE": "opa", "PLACET_OPA_URL": self._opa.url}

    def _provision_settings(self) -> ProvisionSettings:
        passwords = {f"database_{role}_password": word for role, word in self.material.database.items()}
        return ProvisionSettings(
            nats_url=self.nats.url,
            nats_seed_file=self.state.bus_users / "provision.seed",
            database_admin_url=self.postgres.admin_url,
            seed_demo=True,
            pack_settings=PACK_SETTINGS,
            **passwords,
        )


def _copy_policies(target: Path) -> None:
    """The shipped policies, but a cancelled order waits for seconds only."""
    shutil.copytree(ROOT / "policies", target)
    with _edited(target / "tables" / "agreements" / "data.json") as agreements:
        agreements["soon"] = json.loads(json.dumps(agreements["finance"]))
        agreements["soon"]["obligations"]["ttl_s"] = SOON_S
    with _edited(target / "tables" / "tools" / "data.json") as tools:
        tools["cancel_order"]["agreement"] = "soon"


@contextmanager
def _edited(path: Path) -> Iterator[dict[str, Any]]:
    table = json.loads(path.read_text(encoding="utf-8"))
    yield table
    path.write_text(json.dumps(table), encoding="utf-8")


def short_state(directory: Path) -> StateDir:
    """A state directory that the database's own user may pass through."""
    directory.chmod(0o755)
    return StateDir.at(directory)
