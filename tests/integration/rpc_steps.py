"""Serving one command on a real server, and asking it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from placet.contracts.envelope import Command
from placet.contracts.errors import PlacetError
from placet.contracts.runs import Summary, SummaryOf
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.messaging.rpc import ERROR_HEADER, Call, RpcClient, RpcServer
from placet.observability.context import RequestContext

Handler = Callable[[Call, Any], Awaitable[BaseModel]]


ASK = SummaryOf(grant="g", conversation_id="conv-1")


@asynccontextmanager
async def serving(bus: Bus, handler: Handler, *, concurrency: int = 128) -> AsyncIterator[RpcServer]:
    server = RpcServer(bus, "memory", {"get-summary": handler}, concurrency=concurrency)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace_s=1)


async def ask(bus: Bus, command: Command = ASK, *, tenant: str = "acme", timeout_s: float = 5.0) -> Summary:
    return await RpcClient(bus).call("memory", "get-summary", command, Summary, tenant=tenant, timeout_s=timeout_s)


async def code_of(work: Awaitable[Any]) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await work
    return caught.value


async def echo(call: Call, command: SummaryOf) -> Summary:
    return Summary(summary=f"{call.tenant}/{command.conversation_id}", updated_at="now")


def _raw(tenant: str, data: BaseModel = ASK) -> bytes:
    context = RequestContext("req-1", tenant, "alice")
    return wire.encode(
        message_id="cmd-1",
        source="placet/gateway",
        type_="t",
        subject="memory",
        context=context,
        tenant=tenant,
        data=data,
    )


async def _raw_code(bus: Bus, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> str | None:
    reply = await bus.client.request(subject, payload, timeout=3, headers=headers)
    return (reply.headers or {}).get(ERROR_HEADER)
