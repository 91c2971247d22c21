"""Whole runs against the real executor, approval service, policies and documents, with any model: for attacks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from placet.contracts import subjects
from placet.contracts.directory import PersonChange
from placet.contracts.documents import SetDocumentAcl, WithdrawDocument
from placet.contracts.execution import DocumentView, PersonReply, PutPerson
from placet.contracts.runs import CancelAccepted, CancelRun, StartRun
from placet.identity.grants import Purpose
from placet.knowledge.models import Acl
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader, Stored
from placet.messaging.rpc import RpcClient
from placet.observability.context import RequestContext, bound, new_id
from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig
from placet.testkit.waiting import until
from services.agent.app import Agent
from services.agent.app import build as build_agent
from services.agent.settings import Settings as AgentSettings
from services.memory.app import build as build_memory
from services.memory.settings import Settings as MemorySettings
from tests.integration.governance_rig import GovernanceRig

TENANT = "acme"


class RunHouse:
    """Everything but the gateway. `start_agent` takes the settings of the model."""

    def __init__(self, nats: NatsRig, postgres: PostgresRig, directory: Path) -> None:
        self.rig = GovernanceRig(nats, postgres, directory)
        self.gateway: Bus
        self._agent: Agent | None = None

    async def start(self) -> None:
        await self.rig.start()
        self.gateway = await self.rig.nats.bus("gateway")
        nats, keys = self.rig.nats, self.rig.keys
        self._memory = await build_memory(
            MemorySettings(
                nats_url=nats.url, nats_seed_file=nats.seed_file("memory"), grant_public_file=keys.public("grant")
            )
        )
        await self._memory.start()

    async def stop(self) -> None:
        await self._memory.stop()
        await self.rig.stop()

    @asynccontextmanager
    async def agent(self, **changes: Any) -> AsyncIterator[RunHouse]:
        nats, keys = self.rig.nats, self.rig.keys
        settings = AgentSettings(
            nats_url=nats.url,
            nats_seed_file=nats.seed_file("agent"),
            database_url=self.rig.postgres.url("placet_agent"),
            grant_public_file=keys.public("grant"),
            approval_public_file=keys.public("approval"),
            **changes,
        )
        agent = await build_agent(settings)
        await agent.start()
        try:
            yield self
        finally:
            await agent.stop()

    def grant(self, person: str, run_id: str) -> str:
        return self.rig.mint.mint(
            tenant=TENANT, actor=person, purpose=Purpose.RUN, request_id=f"req-{run_id}", lifetime_s=900, run_id=run_id
        )

    async def ask(self, person: str, question: str) -> str:
        run_id = new_id("run")
        command = StartRun(
            grant=self.grant(person, run_id), run_id=run_id, conversation_id=new_id("conv"), question=question
        )
        payload = wire.encode(
            message_id=run_id,
            source="placet/gateway",
            type_="placet.agent.start-run.v1",
            subject=run_id,
            context=RequestContext(request_id=f"req-{run_id}", tenant=TENANT, actor=person),
            tenant=TENANT,
            data=command,
        )
        await self.gateway.js.publish(subjects.command(TENANT, "agent", "start-run", run_id), payload)
        return run_id

    async def events(self, run_id: str) -> list[Stored]:
        return await EventReader(self.gateway, "RUNS").entity(TENANT, "agent", run_id)

    async def reach(self, run_id: str, *names: str, timeout_s: float = 120.0) -> str:
        """Wait for the first of these events; returns its name."""
        found: list[str] = []

        async def there() -> bool:
            found[:] = [event.name for event in await self.events(run_id) if event.name in names]
            return bool(found)

        await until(there, timeout_s=timeout_s, what=f"{names} of {run_id}")
        return found[0]

    async def data(self, run_id: str, name: str) -> dict[str, Any]:
        return next(dict(e.envelope.data["data"]) for e in await self.events(run_id) if e.name == name)

    async def finished(self, run_id: str) -> dict[str, Any]:
        await self.reach(run_id, "run-completed")
        return await self.data(run_id, "run-completed")

    async def cancel(self, person: str, run_id: str) -> None:
        command = CancelRun(grant=self.grant(person, run_id), run_id=run_id)
        with bound(RequestContext(request_id=new_id("req"), tenant=TENANT, actor=person)):
            await RpcClient(self.gateway).call("agent", "cancel-run", command, CancelAccepted, tenant=TENANT)

    async def change(self, person: str, **fields: Any) -> None:
        """What a directory administrator writes about somebody."""
        command = PutPerson(
            grant=self.rig.grant("directory_admin"), user_id=person, change=PersonChange.model_validate(fields)
        )
        with bound(RequestContext(new_id("req"), TENANT, "directory_admin")):
            await RpcClient(self.gateway).call("tool-executor", "put-person", command, PersonReply, tenant=TENANT)

    async def close_document(self, document_id: str, how: str) -> None:
        """What a knowledge administrator does who reads it: give it a list that names nobody, or withdraw it."""
        board = {"active": True, "roles": ["employee", "c_level", "knowledge_admin"], "teams": [], "clearance": 3}
        await self.change("gina", **board)
        grant = self.rig.grant("gina")
        command: SetDocumentAcl | WithdrawDocument = WithdrawDocument(grant=grant, document_id=document_id)
        if how == "narrowed":
            command = SetDocumentAcl(grant=grant, document_id=document_id, roles=("nobody",), teams=(), clearance=0)
        name = "set-document-acl" if how == "narrowed" else "withdraw-document"
        with bound(RequestContext(new_id("req"), TENANT, "gina")):
            await RpcClient(self.gateway).call("tool-executor", name, command, DocumentView, tenant=TENANT)

    async def open_document(self, document_id: str) -> None:
        """As it was: as open as its base, and published."""
        store = self.rig.postgres.knowledge()
        await store.set_acl(TENANT, document_id, Acl())
        state = await store.document_state(TENANT, document_id)
        if state is not None and state.status != "published":
            await store.publish(
                TENANT,
                document_id,
                state.version,
                lock_version=state.lock_version,
                actor="gina",
                idempotency_key=new_id("test"),
            )

    async def audited(self, run_id: str) -> list[dict[str, Any]]:
        """Every record of one run."""
        records = (await self.rig.audit(run_id=run_id, limit=500)).items
        return [{"type": entry.type, **entry.record.model_dump(mode="json")} for entry in records]

    async def effects(self) -> list[Stored]:
        """Every event of the effect ledger of this tenant."""
        filter_ = f"placet.{TENANT}.tool-executor.evt.*.v1.*"
        return await self.rig.effects_reader().page(filter_, after=0, limit=10_000)

    async def checkpoint_bytes(self) -> bytes:
        """Every byte of the tables in which checkpoints lie, of all runs."""
        found = b""
        async with await psycopg.AsyncConnection.connect(self.rig.postgres.url("placet_agent")) as connection:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                cursor = await connection.execute(f"SELECT * FROM checkpoints.{table}")
                for row in await cursor.fetchall():
                    found += b"".join(
                        bytes(value)
                        if isinstance(value, bytes | memoryview)
                        else json.dumps(value, default=str).encode()
                        for value in row
                    )
        return found
