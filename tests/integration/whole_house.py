"""Every service of the house on one bus: gateway, agent, memory, tool-executor, approval, with nothing faked."""

from __future__ import annotations

import secrets
from typing import Any

import httpx

from placet.contracts.directory import PersonChange
from placet.messaging.kv import KeyValue
from placet.testkit.waiting import until
from services.agent.adapters.control import KvRunControl
from services.agent.app import Agent
from services.agent.app import build as build_agent
from services.agent.settings import Settings as AgentSettings
from services.memory.app import Memory
from services.memory.app import build as build_memory
from services.memory.settings import Settings as MemorySettings
from tests.integration.document_house import DocumentHouse
from tests.integration.governance_rig import GovernanceRig
from tests.integration.more_orders import copy_order

WAITING, COMPLETED = "run.waiting_for_human", "run.completed"


class WholeHouse(DocumentHouse):
    """People ask over HTTP and are answered by runs. `agent` is None while it is away."""

    def __init__(self, governance: GovernanceRig) -> None:
        super().__init__(governance)
        self.agent: Agent | None = None
        self._known: dict[str, httpx.AsyncClient] = {}
        self._memory: Memory

    async def open(self, **agent: Any) -> None:
        nats, keys = self.governance.nats, self.governance.keys
        await self.start(gateway_heartbeat_s=0.5)
        self._memory = await build_memory(
            MemorySettings(
                nats_url=nats.url, nats_seed_file=nats.seed_file("memory"), grant_public_file=keys.public("grant")
            )
        )
        await self._memory.start()
        await self.start_agent(**agent)

    async def close(self) -> None:
        await self.stop_agent()
        await self._memory.stop()
        await self.stop()

    def agent_settings(self, **changes: Any) -> AgentSettings:
        nats, keys = self.governance.nats, self.governance.keys
        fields: dict[str, Any] = {
            "nats_url": nats.url,
            "nats_seed_file": nats.seed_file("agent"),
            "database_url": self.governance.postgres.url("placet_agent"),
            "grant_public_file": keys.public("grant"),
            "approval_public_file": keys.public("approval"),
            "agent_lease_ttl_s": 3,
            "agent_lease_renew_s": 0.8,
        }
        return AgentSettings(**(fields | changes))

    async def start_agent(self, **changes: Any) -> None:
        self.agent = await build_agent(self.agent_settings(**changes))
        await self.agent.start()

    async def stop_agent(self) -> None:
        agent, self.agent = self.agent, None
        if agent:
            await agent.stop()

    def as_(self, who: str, tenant: str | None = None) -> httpx.AsyncClient:
        """One client a person: making one costs more than a call."""
        name = f"{tenant}/{who}"
        if name not in self._known:
            self._known[name] = super().as_(who, tenant)
        return self._known[name]

    async def new_orders(self, number: int) -> list[str]:
        """Orders of a customer of Alice's, for one test alone."""
        ids = [f"A{secrets.randbelow(9_000_000) + 1_000_000}" for _ in range(number)]
        async with self.governance.postgres.database("placet_owner").engine.begin() as connection:
            await copy_order(connection, ids)
        return ids

    async def ask(self, who: str, question: str) -> str:
        """The id of a new run."""
        return str((await self.as_(who).post("/api/runs", json={"question": question})).json()["run_id"])

    async def run(self, who: str, run_id: str) -> dict[str, Any]:
        """What its owner is shown of it."""
        answer = await self.as_(who).get(f"/api/runs/{run_id}")
        return dict(answer.json()) if answer.status_code == 200 else {"status": answer.status_code}

    async def came_to(self, who: str, run_id: str, *statuses: str) -> dict[str, Any]:
        """The run, as soon as it has one of these statuses."""
        shown: dict[str, Any] = {}

        async def there() -> bool:
            shown.update(await self.run(who, run_id))
            return shown["status"] in statuses

        await until(there, timeout_s=90, what=f"{statuses} of {run_id}")
        return shown

    async def waits(self, run_id: str, tries: int = 2) -> None:
        """Until the run has been put back so often because a part is away."""
        control = KvRunControl(KeyValue(await self.governance.nats.bus("agent"), "RUN_CONTROL"))

        async def there() -> bool:
            return (await control.waited_of(self.tenant, run_id)).tries >= tries

        await until(there, timeout_s=90, what=f"{run_id} waiting")

    async def answered(self, who: str, question: str) -> tuple[str, dict[str, Any]]:
        run_id = await self.ask(who, question)
        return run_id, await self.came_to(who, run_id, "completed")

    async def put_person(self, who: str, **fields: Any) -> None:
        """What a directory administrator writes about somebody, who may be new."""
        known = {"active": True, "roles": ["employee"], "teams": [], "clearance": 1}
        body = PersonChange.model_validate(known | fields).model_dump(mode="json")
        path = f"/api/directory/users/{who}"
        answer = await self.as_("directory_admin").put(path, json=body)
        assert answer.status_code == 200, answer.text
