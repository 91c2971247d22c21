"""The governance house with its HTTP door: real gateway, approval service, executor, policy, bus and database."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

import httpx
from gateway_rig import Gateway

from placet.contracts.directory import Person
from placet.identity import keys
from placet.identity.tokens import LocalIssuer
from placet.knowledge.models import Acl, KnowledgeBase
from placet.messaging.kv import KeyValue
from placet.testkit.builders import AUDIENCE, ISSUER
from placet.testkit.ports import free_port
from services.gateway.settings import Settings
from tests.integration.governance_rig import GovernanceRig

T = TypeVar("T")


class DocumentHouse:
    """People with tokens in front of a real gateway."""

    def __init__(self, governance: GovernanceRig) -> None:
        self.governance = governance
        self.tenant = "acme"
        self._issuer_key = keys.generate()
        self._clients: list[httpx.AsyncClient] = []
        self.gateway: Gateway

    async def start(self, **changes: Any) -> None:
        jwks = self.governance.keys.directory / "jwks.json"
        jwks.write_text(json.dumps(keys.key_set(self._issuer_key).as_dict()), encoding="utf-8")
        settings = Settings(
            nats_url=self.governance.nats.url,
            nats_seed_file=self.governance.nats.seed_file("gateway"),
            gateway_port=free_port(),
            gateway_jwks_file=jwks,
            gateway_grant_key_file=self.governance.keys.private("grant"),
            gateway_issuer=ISSUER,
            gateway_audience=AUDIENCE,
            **changes,
        )
        self.gateway = Gateway(settings)
        await self.gateway.start()

    async def stop(self) -> None:
        for client in self._clients:
            await client.aclose()
        await self.gateway.stop()

    def of(self, tenant: str) -> Self:
        """The same house, seen by the people of another tenant."""
        other = copy.copy(self)
        other.tenant = tenant
        return other

    async def tenant_of_its_own(self, tenant: str) -> Self:
        """With one person, Kim, who administers the documents of its base `kb-policies`."""
        roles = ("employee", "knowledge_admin")
        kim = Person(id="kim", tenant=tenant, active=True, roles=roles, teams=(), clearance=1)
        bus = await self.governance.nats.bus("tool-executor")
        await KeyValue(bus, "DIRECTORY").put(f"{tenant}.kim", kim.model_dump_json().encode())
        base = KnowledgeBase(tenant, "kb-policies", tenant, Acl(roles=frozenset({"employee"})))
        await self.governance.postgres.knowledge().put_base(base)
        return self.of(tenant)

    def token(self, who: str, tenant: str | None = None) -> str:
        return LocalIssuer(self._issuer_key, ISSUER, AUDIENCE).issue(tenant or self.tenant, who)

    def as_(self, who: str, tenant: str | None = None) -> httpx.AsyncClient:
        client = httpx.AsyncClient(
            base_url=self.gateway.url, headers={"Authorization": f"Bearer {self.token(who, tenant)}"}, timeout=60
        )
        self._clients.append(client)
        return client

    async def upload(
        self,
        who: str,
        data: bytes = b"# Gate\n\nThe gate code is 1111.\n",
        *,
        name: str = "gate.md",
        base: str = "kb-policies",
        title: str = "Gate rules",
        tenant: str | None = None,
        headers: dict[str, str] | None = None,
        media_type: str = "text/plain",
        **fields: str,
    ) -> httpx.Response:
        form = {"knowledge_base_id": base, "title": title, **fields}
        files = {"file": (name, data, media_type)}
        return await self.as_(who, tenant).post("/api/documents", data=form, files=files, headers=headers)

    async def stream(self, who: str, content: AsyncIterator[bytes], size: int | None = None) -> tuple[int, bytes]:
        """Send a form (boundary `b`) piece by piece, its size announced or not; its answer is read meanwhile.

        Status and body.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.gateway.url.rpartition(":")[2]))
        length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
        head = (
            f"POST /api/documents HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{length}\r\n"
            f"Content-Type: multipart/form-data; boundary=b\r\nAuthorization: Bearer {self.token(who)}\r\n\r\n"
        )
        writer.write(head.encode())
        sending, answer = asyncio.create_task(_write(writer, content, chunked=size is None)), b""
        try:
            with suppress(ConnectionResetError):  # for who never stops sending, however good the answer was
                while part := await reader.read(65_536):
                    answer += part
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            writer.close()
        return int(answer.split(b" ", 2)[1]), answer.partition(b"\r\n\r\n")[2]

    async def read(self, who: str, document_id: str) -> dict[str, Any]:
        """The document once its newest file has been read, or has failed."""

        async def ended() -> dict[str, Any] | None:
            view = await self._got(self.as_(who), f"/api/documents/{document_id}")
            return view if view["state"] in ("ready", "failed") else None

        return await until(ended)

    async def publish(self, who: str, document_id: str) -> httpx.Response:
        client = self.as_(who)
        proposal = (await client.post(f"/api/documents/{document_id}/publish-proposals")).json()
        path = f"/api/publish-proposals/{proposal['proposal_id']}/decisions"
        return await client.post(path, json={"approved": True})

    async def published(self, data: bytes, *, who: str = "carol", **more: Any) -> str:
        """The id of a new document of `kb-policies` that says `data`, read and published."""
        document_id: str = (await self.upload(who, data, **more)).json()["document_id"]
        assert (await self.read(who, document_id))["state"] == "ready"
        assert (await self.publish(who, document_id)).json()["finish_reason"] == "success"
        return document_id

    async def found(self, who: str, query: str, tenant: str | None = None) -> list[str]:
        """The documents that a search finds, best first."""
        answer = await self._got(self.as_(who, tenant), "/api/search", q=query, k=20)
        return [item["document_id"] for item in answer["items"]]

    async def _got(self, client: httpx.AsyncClient, path: str, **params: Any) -> dict[str, Any]:
        """What is there, asked for again where the answer is to try again: on a busy machine a call may time out."""

        async def tried() -> dict[str, Any] | None:
            answer = await client.get(path, params=params)
            body: dict[str, Any] = answer.json()
            return None if answer.status_code in (503, 504) else body

        return await until(tried)


async def _write(writer: asyncio.StreamWriter, content: AsyncIterator[bytes], *, chunked: bool) -> None:
    async for part in content:
        writer.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        await writer.drain()
    if chunked:
        writer.write(b"0\r\n\r\n")


async def until(look: Callable[[], Awaitable[T | None]], patience_s: float = 240.0, every_s: float = 0.2) -> T:
    """What `look` gives, as soon as it gives something."""
    async with asyncio.timeout(patience_s):
        while (found := await look()) is None:
            await asyncio.sleep(every_s)
    return found
