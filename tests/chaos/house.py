"""The whole house: stores, services, and proxies between them; whatever is killed is started again at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from placet.cli import material, people
from placet.cli.supervisor import environment
from placet.client import PlacetClient
from placet.messaging.reading import EventReader
from placet.testkit.ports import free_port
from placet.testkit.processes import alive
from placet.testkit.waiting import until
from tests.chaos.bus_proxy import bus_proxy
from tests.chaos.database_proxy import database_proxy
from tests.chaos.points import Traps
from tests.chaos.provider import Provider
from tests.chaos.relay import Relay
from tests.chaos.spawners import Spawner
from tests.chaos.stores import PACK_SETTINGS, Stores, short_state

_MODULES = {
    "gateway": "services.gateway.app",
    "agent": "services.agent.app",
    "tool-executor": "services.tool_executor.app",
    "approval": "services.approval.app",
    "memory": "services.memory.app",
}
TENANT = people.TENANT
_DATABASE_ROLES = {"agent": "agent", "tool-executor": "executor", "approval": "approval"}


class House:
    """Five services, nats-server, PostgreSQL, a policy engine and a payment provider."""

    def __init__(self, directory: Path, settings: Mapping[str, Mapping[str, str]]) -> None:
        self._settings = settings
        self.stores = Stores(short_state(directory))
        self.traps = Traps(self.kill)
        self.provider = Provider(self.traps)
        self.kills: Counter[str] = Counter()
        self.own_ends: Counter[str] = Counter()
        self.never_back: list[str] = []
        self.numbers = itertools.count()
        self._held: set[str] = set()
        self._pids: dict[str, int] = {}
        self._environments: dict[str, dict[str, str]] = {}
        self._spawners: dict[str, Spawner] = {}
        self._proxies: list[Relay] = []
        self._reviving: dict[str, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        loading = asyncio.gather(*(self._load(service) for service in _MODULES))
        await self.stores.start()
        await loading
        await self.provider.start()
        ports = {name: free_port() for name in ("gateway", *_MODULES)}
        words = self.stores.material.database.items()
        urls = {role: self.stores.postgres.url(f"placet_{role}", word) for role, word in words}
        addresses = environment.Addresses("", "", ports["gateway"], ports, urls)
        for service in _MODULES:
            self._environments[service] = await self._environment(service, addresses)
        self.url = f"http://127.0.0.1:{ports['gateway']}"
        for service in _MODULES:
            await self._spawn(service)
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching:
            self._watching.cancel()
        for task in self._reviving.values():
            task.cancel()
        await asyncio.gather(*self._reviving.values(), return_exceptions=True)
        for spawner in self._spawners.values():
            await spawner.close()
        for proxy in self._proxies:
            await proxy.stop()
        await self.provider.stop()
        await self.stores.stop()

    def client(self, person: str) -> PlacetClient:
        """With a token issued at this moment, for anybody of the tenant."""
        token = material.tokens(self.stores.state.keys, {person: (TENANT, person)})[person]
        return PlacetClient(self.url, token)

    async def effect_ends(self, key: str, name: str, timeout_s: float) -> None:
        """Wait until an event of this name is on the ledger, whatever is killed meanwhile."""
        bus = await self.stores.bus("approval")
        try:
            reader = EventReader(bus, "EFFECTS")

            async def there() -> bool:
                return any(event.name == name for event in await reader.entity(TENANT, "tool-executor", key))

            await until(there, timeout_s, what=f"{name} of {key}")
        finally:
            await bus.close()

    def logs(self) -> str:
        """What the services have said, one after the other."""
        files = sorted((self.stores.state.root / "logs").glob("*.log"))
        return "\n".join(f"==> {file.name} <==\n{file.read_text(errors='replace')}" for file in files)

    # -- death -----------------------------------------------------------------------------------------------------

    def kill(self, victim: str) -> None:
        """SIGKILL, now; it is started again as soon as it is gone."""
        self.kills[victim] += 1
        self._strike(victim)
        self._revive(victim)

    def _strike(self, victim: str) -> None:
        if victim == "nats":
            self.stores.kill_nats()
        elif victim == "postgres":
            self.stores.kill_postgres()
        else:
            with suppress(ProcessLookupError):
                os.kill(self._pids[victim], signal.SIGKILL)

    def hold(self, victim: str) -> None:
        """Kill it, and leave it dead until `let_go`."""
        self._held.add(victim)
        self.kill(victim)

    def let_go(self, victim: str) -> None:
        self._held.discard(victim)

    def _revive(self, victim: str) -> None:
        before = self._reviving.get(victim)
        self._reviving[victim] = asyncio.create_task(self._revived(victim, before))

    async def _revived(self, victim: str, before: asyncio.Task[None] | None) -> None:
        if before:
            await asyncio.gather(before, return_exceptions=True)
            self._strike(victim)  # what was started again in the meantime is meant, too
        try:
            await self._start_again(victim)
        except Exception as error:  # noqa: BLE001 - nobody awaits this for its result: it is told with the verdicts
            self.never_back.append(f"{victim} did not come back: {error!r}")

    async def _start_again(self, victim: str) -> None:
        if victim == "nats":
            await self.stores.revive_nats()
        elif victim == "postgres":
            await self.stores.revive_postgres()
        else:
            await until(lambda: not alive(self._pids[victim]), timeout_s=60)
            while victim in self._held:
                await asyncio.sleep(0.05)
            await self._spawn(victim)

    async def _watch(self) -> None:
        """A service that ends by itself (a store was away while it started) is started again, as a supervisor does."""
        while True:
            await asyncio.sleep(0.2)
            for service, pid in self._pids.items():
                task = self._reviving.get(service)
                if not alive(pid) and (task is None or task.done()):
                    self.own_ends[service] += 1
                    self._revive(service)

    async def settled(self) -> None:
        """Wait until everything that was killed has been started again."""
        while pending := [task for task in self._reviving.values() if not task.done()]:
            await asyncio.gather(*pending, return_exceptions=True)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _load(self, service: str) -> None:
        log = self.stores.state.log(service)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._spawners[service] = await Spawner.load(_MODULES[service], environment.bare(), log)

    async def _spawn(self, service: str) -> None:
        self._pids[service] = await self._spawners[service].start(self._environments[service])

    async def _environment(self, service: str, addresses: environment.Addresses) -> dict[str, str]:
        state = self.stores.state
        state.scratch(service).mkdir(parents=True, exist_ok=True)
        own = environment.of_service(service, state, addresses, engine="embedded", policies=self.stores.policies)
        bus = bus_proxy(service, self.stores.nats.port, self.traps)
        self._proxies.append(bus)
        own |= {"PLACET_NATS_URL": f"nats://127.0.0.1:{await bus.start()}", **self.stores.policy_environment}
        role = _DATABASE_ROLES.get(service)
        if role:
            database = database_proxy(service, self.stores.postgres.port, self.traps)
            self._proxies.append(database)
            word = self.stores.material.database[role]
            own["PLACET_DATABASE_URL"] = f"postgresql://placet_{role}:{word}@127.0.0.1:{await database.start()}/placet"
        if service == "tool-executor":
            paying = {"payment_url": self.provider.url, "payment_timeout_s": "5"}
            own["PLACET_PACK_SETTINGS"] = json.dumps({**PACK_SETTINGS, **paying})
        return {**own, **self._settings.get(service, {})}


@asynccontextmanager
async def open_house(settings: Mapping[str, Mapping[str, str]] | None = None) -> AsyncIterator[House]:
    """A running house in a directory that is removed at the end. `settings`: variables of a service beside its own."""
    directory = Path(tempfile.mkdtemp(prefix="placet-chaos-"))
    house = House(directory, settings or {})
    try:
        await house.start()
        yield house
    finally:
        await house.stop()
        shutil.rmtree(directory, ignore_errors=True)
