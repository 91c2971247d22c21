"""The agent and memory services on a real bus and a real database, with small fakes of the executor and approval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from placet.contracts import events as ev
from placet.contracts import subjects
from placet.contracts.proposals import FinishReason
from placet.contracts.runs import CancelAccepted, CancelRun, StartRun, Summary, SummaryOf
from placet.identity.grants import GrantMint
from placet.messaging import wire
from placet.messaging.append import Appender, NewEvent
from placet.messaging.kv import KeyValue
from placet.messaging.reading import EventReader, Stored
from placet.messaging.rpc import Handler, RpcClient, RpcServer
from placet.observability.context import RequestContext, bound, new_id
from placet.testkit import builders
from placet.testkit.builders import Keys
from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig
from placet.testkit.waiting import until
from services.agent.adapters.control import KvRunControl
from services.agent.app import Agent
from services.agent.app import build as build_agent
from services.agent.settings import Settings as AgentSettings
from services.memory.app import Memory
from services.memory.app import build as build_memory
from services.memory.settings import Settings as MemorySettings
from tests.integration.agent_fakes import TENANT, WRITES, FakeApproval, FakeExecutor, completed


class AgentRig:
    """Two people's runs on one bus. `agent` is the service in this process; further ones may be child processes."""

    def __init__(self, nats: NatsRig, postgres: PostgresRig, directory: Path) -> None:
        self.nats = nats
        self.postgres = postgres
        self.directory = directory
        self.keys = Keys()
        self.mint: GrantMint = self.keys.mint()
        self.executor = FakeExecutor()
        self.approval = FakeApproval()
        self.agent: Agent | None = None
        self._door: RpcServer

    async def start(self) -> None:
        for name, key in (("grant", self.keys.grant), ("approval", self.keys.approval)):
            (self.directory / f"{name}.jwk").write_text(json.dumps(key.as_dict(private=False)))
        self.gateway = await self.nats.bus("gateway")
        self.core = await self.nats.bus("approval")
        self._approvals = RpcServer(self.core, "approval", {"withdraw": self.approval.on_withdraw})
        await self._approvals.start()
        await self.open_door()
        self.memory: Memory = await build_memory(self.memory_settings())
        await self.memory.start()
        self._completions = Appender(self.core, "approval", "APPROVALS", self.keys.approval_signer())
        await self.start_agent()

    async def stop(self) -> None:
        await self.stop_agent()
        await self.memory.stop()
        await self._door.stop()
        await self._approvals.stop()

    async def open_door(self) -> None:
        """Let the executor be there, for the first time or again."""
        handlers: dict[str, Handler] = {
            "execute-tool": self.executor.on_execute,
            "list-tools": self.executor.on_list,
            "resolve-citations": self.executor.on_resolve,
        }
        self._door = RpcServer(await self.nats.bus("tool-executor"), "tool-executor", handlers)
        await self._door.start()

    async def close_door(self) -> None:
        """Nobody serves the executor's commands until `open_door`."""
        await self._door.stop()

    async def waits(self, run_id: str, tries: int = 2) -> None:
        """Until the run has been put back so often because a part is away."""
        control = KvRunControl(KeyValue(await self.nats.bus("agent"), "RUN_CONTROL"))

        async def there() -> bool:
            return (await control.waited_of(TENANT, run_id)).tries >= tries

        await until(there, timeout_s=90, what=f"{run_id} waiting")

    async def start_agent(self, **changes: Any) -> None:
        self.agent = await build_agent(self.settings(**changes))
        await self.agent.start()

    async def stop_agent(self) -> None:
        agent, self.agent = self.agent, None
        if agent:
            await agent.stop()

    def settings(self, **changes: Any) -> AgentSettings:
        fields: dict[str, Any] = {
            "nats_url": self.nats.url,
            "nats_seed_file": self.nats.seed_file("agent"),
            "database_url": self.postgres.url("placet_agent"),
            "grant_public_file": self.directory / "grant.jwk",
            "approval_public_file": self.directory / "approval.jwk",
            "agent_lease_ttl_s": 3,
            "agent_lease_renew_s": 0.8,
        }
        return AgentSettings(**(fields | changes))

    def memory_settings(self) -> MemorySettings:
        return MemorySettings(
            nats_url=self.nats.url,
            nats_seed_file=self.nats.seed_file("memory"),
            grant_public_file=self.directory / "grant.jwk",
        )

    def grant(self, run_id: str, actor: str = "alice", **changes: Any) -> str:
        return builders.grant(self.mint, actor, run_id=run_id, **changes)

    async def ask(self, question: str, *, actor: str = "alice", conversation: str | None = None, **changes: Any) -> str:
        """Queue a run as the gateway does; returns its id."""
        run_id = str(changes.pop("run_id", None) or new_id("run"))
        token = changes.pop("grant", None) or self.grant(run_id, actor, **changes)
        command = StartRun(
            grant=token, run_id=run_id, conversation_id=conversation or new_id("conv"), question=question
        )
        payload = wire.encode(
            message_id=f"start:{run_id}",
            source="placet/gateway",
            type_="placet.agent.start-run.v1",
            subject=run_id,
            context=RequestContext(request_id=f"req-{run_id}", tenant=TENANT, actor=actor),
            tenant=TENANT,
            data=command,
        )
        await self.gateway.js.publish(subjects.command(TENANT, "agent", "start-run", run_id), payload)
        return run_id

    async def events(self, run_id: str) -> list[Stored]:
        return await EventReader(self.gateway, "RUNS").entity(TENANT, "agent", run_id)

    async def names(self, run_id: str) -> list[str]:
        return [event.name for event in await self.events(run_id)]

    async def data(self, run_id: str, name: str) -> list[dict[str, Any]]:
        return [event.envelope.data["data"] for event in await self.events(run_id) if event.name == name]

    async def reach(self, run_id: str, name: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """Wait for an event of this run; returns its data."""

        async def there() -> bool:
            return name in await self.names(run_id)

        await until(there, timeout_s=timeout_s, what=f"{name} of {run_id}")
        return (await self.data(run_id, name))[-1]

    async def finished(self, run_id: str, timeout_s: float = 60.0) -> dict[str, Any]:
        return await self.reach(run_id, "run-completed", timeout_s)

    async def parked(self, question: str = "Please refund order A1001, 299, it arrived broken.", **changes: Any) -> str:
        """A run that waits for a person, with its lease given back."""
        run_id = await self.ask(question, **changes)
        await self.reach(run_id, "run-waiting-for-human")
        await self.released(run_id)
        return run_id

    async def released(self, run_id: str) -> None:
        leases = KeyValue(await self.nats.bus("agent"), "LEASES")

        async def free() -> bool:
            entry = await leases.get(f"{TENANT}.{run_id}")
            return entry is None or entry.value == b"free"

        await until(free, what="the lease of a parked run")

    async def answer(self, question: str, **changes: Any) -> dict[str, Any]:
        return await self.finished(await self.ask(question, **changes))

    async def complete(
        self, run_id: str, reason: FinishReason = FinishReason.SUCCESS, *, call: int = -1, **changes: Any
    ) -> ev.Completed:
        """End the proposal of one of the run's calls."""
        command = [c for c in self.executor.of(run_id) if c.tool in WRITES][call]
        event = completed(command, run_id, reason, **changes)
        await self._completions.append(TENANT, NewEvent("completed", event.proposal_id, event), 0)
        return event

    async def audited(self, run_id: str) -> list[dict[str, Any]]:
        reader = EventReader(self.core, "AUDIT")
        page = await reader.page(subjects.entity(TENANT, "audit", run_id), after=0, limit=200)
        return [
            {"name": event.name, **event.envelope.data, "correlation": event.envelope.correlationid} for event in page
        ]

    async def cancel(self, run_id: str, actor: str = "alice") -> CancelAccepted:
        command = CancelRun(grant=self.grant(run_id, actor), run_id=run_id)
        with bound(RequestContext(request_id=new_id("req"), tenant=TENANT, actor=actor)):
            return await RpcClient(self.gateway).call("agent", "cancel-run", command, CancelAccepted, tenant=TENANT)

    async def summary(self, conversation: str, actor: str = "alice") -> str:
        command = SummaryOf(grant=self.grant("run-x", actor), conversation_id=conversation)
        found = await RpcClient(self.gateway).call("memory", "get-summary", command, Summary, tenant=TENANT)
        return found.summary
