"""A real gateway on a real bus, with small real stand-ins of the other services."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from gateway_fake_agent import FakeAgent
from gateway_fake_approval import FakeApproval, FakeMemory
from gateway_fake_executor import FakeExecutor

from placet.contracts.proposals import (
    ApprovalCount,
    Challenge,
    ProposalStatus,
    ProposalView,
    ResourceRef,
    Rollback,
)
from placet.contracts.tools import Risk
from placet.identity import keys
from placet.testkit.builders import AUDIENCE, DIGEST, ISSUER, NOON, Keys
from placet.testkit.nats import NatsRig
from placet.testkit.ports import free_port
from services.gateway.app import build, drain
from services.gateway.settings import Settings


def write_keys(directory: Path, made: Keys) -> dict[str, str]:
    """The gateway's key files; returns the environment that names them."""
    directory.mkdir(parents=True, exist_ok=True)
    jwks, grant = directory / "jwks.json", directory / "grant.private.jwk"
    jwks.write_text(json.dumps(keys.key_set(made.issuer).as_dict()), encoding="utf-8")
    keys.write_secret(grant, json.dumps(made.grant.as_dict(private=True)))
    return {
        "PLACET_GATEWAY_JWKS_FILE": str(jwks),
        "PLACET_GATEWAY_GRANT_KEY_FILE": str(grant),
        "PLACET_GATEWAY_ISSUER": ISSUER,
        "PLACET_GATEWAY_AUDIENCE": AUDIENCE,
    }


class Gateway:
    """One gateway in this process, behind a real HTTP server."""

    def __init__(self, settings: Settings) -> None:
        self.app = build(settings)
        self.url = f"http://127.0.0.1:{settings.gateway_port}"
        config = uvicorn.Config(
            self.app, host="127.0.0.1", port=settings.gateway_port, http="httptools", log_level="error"
        )
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server._serve())
        async with asyncio.timeout(60):
            while not self._server.started:
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        drain(self.app)
        self._server.should_exit = True
        if self._task:
            await asyncio.wait_for(self._task, 10)


@dataclass
class House:
    directory: Path
    nats: NatsRig
    keys: Keys
    gateway: Gateway
    settings: Settings
    agent: FakeAgent
    executor: FakeExecutor
    approval: FakeApproval
    memory: FakeMemory
    _clients: list[httpx.AsyncClient] = field(default_factory=list)

    def token(self, who: str = "alice", tenant: str = "acme", **changes: Any) -> str:
        return self.keys.local_issuer().issue(tenant, who, **changes)

    def as_(self, who: str = "alice", tenant: str = "acme", *, url: str | None = None) -> httpx.AsyncClient:
        """A client with this person's token."""
        client = httpx.AsyncClient(
            base_url=url or self.gateway.url,
            headers={"Authorization": f"Bearer {self.token(who, tenant)}"},
            timeout=30,
            limits=httpx.Limits(max_connections=None),
        )
        self._clients.append(client)
        return client

    @asynccontextmanager
    async def another_gateway(self, **changes: Any) -> AsyncIterator[Gateway]:
        """A second replica on the same bus."""
        settings = self.settings.model_copy(update={"gateway_port": free_port(), **changes})
        gateway = Gateway(settings)
        await gateway.start()
        try:
            yield gateway
        finally:
            await gateway.stop()

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


@asynccontextmanager
async def open_house(**waits: float) -> AsyncIterator[House]:
    """Everything up, with short waits unless others are given; everything down at the end."""
    directory = Path(tempfile.mkdtemp(prefix="placet-gateway-"))
    nats = NatsRig(directory)
    house: House | None = None
    try:
        await nats.start()
        made = Keys()
        files = write_keys(directory / "keys", made)
        settings = Settings(
            nats_url=nats.url,
            nats_seed_file=nats.seed_file("gateway"),
            gateway_port=free_port(),
            gateway_jwks_file=Path(files["PLACET_GATEWAY_JWKS_FILE"]),
            gateway_grant_key_file=Path(files["PLACET_GATEWAY_GRANT_KEY_FILE"]),
            gateway_issuer=ISSUER,
            gateway_audience=AUDIENCE,
            gateway_chat_wait_s=2.0,
            gateway_heartbeat_s=1.0,
            gateway_publish_wait_s=2.0,
        ).model_copy(update=dict(waits))
        verifier = made.grants()
        house = House(
            directory,
            nats,
            made,
            Gateway(settings),
            settings,
            FakeAgent("agent", await nats.bus("agent"), verifier),
            FakeExecutor("tool-executor", await nats.bus("tool-executor"), verifier),
            FakeApproval("approval", await nats.bus("approval"), verifier),
            FakeMemory("memory", await nats.bus("memory"), verifier),
        )
        await house.agent.open()
        await house.executor.open()
        await house.approval.open(refund(), publication())
        await house.memory.open()
        await house.gateway.start()
        yield house
    finally:
        if house:
            await house.close()
            await house.gateway.stop()
            await house.agent.close()
        await nats.close()
        shutil.rmtree(directory, ignore_errors=True)


def proposal(proposal_id: str, **changes: Any) -> ProposalView:
    fields: dict[str, Any] = {
        "proposal_id": proposal_id,
        "status": ProposalStatus.PENDING,
        "finish_reason": None,
        "tool": "refund_payment",
        "title": "Refund a payment",
        "summary": "Refund 299 CNY of order A1001.",
        "arguments": {"order_id": "A1001", "amount": 299},
        "digest": DIGEST,
        "intent": "please",
        "lineage": (),
        "authors": (),
        "resource": ResourceRef(type="order", id="A1001", version="1"),
        "permissions": (),
        "blast_radius": (),
        "preview": (),
        "rollback": Rollback(),
        "risk": Risk.CRITICAL_FUNDS,
        "policy_revision": "sha256:rev",
        "idempotency_key": "eff-1",
        "requester": "alice",
        "run_id": "run-1",
        "request_id": "req-1",
        "approvals": ApprovalCount(needed=1),
        "challenge": Challenge(resources=("A1001",), retype="order_id"),
        "created_at": NOON,
        "expires_at": NOON,
        "outcome": None,
    }
    return ProposalView(**(fields | changes))


def refund(proposal_id: str = "prop-1") -> ProposalView:
    return proposal(proposal_id)


def publication(proposal_id: str = "prop-publish") -> ProposalView:
    return proposal(
        proposal_id,
        tool="apply_publish_decision",
        requester="carol",
        arguments={"document_id": "doc-1", "version": 3, "lock_version": 7},
        resource=ResourceRef(type="document", id="doc-1", version="7"),
        challenge=None,
        risk=Risk.HIGH,
    )


def is_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= set(body)
    assert answer.headers["x-request-id"]
    return body
