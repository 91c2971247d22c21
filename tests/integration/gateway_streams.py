"""Runs that a test drives itself, and clients of their event streams."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
from gateway_rig import House

from placet.identity.grants import Grant, Purpose
from placet.observability.context import new_id
from services.gateway.adapters.live_hub import HubSeat, LiveHub
from services.gateway.domain.runs import RunKey


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event; `id` None is a comment."""

    id: int | None
    event: str | None
    data: dict[str, Any] | None


async def frames(response: httpx.Response) -> AsyncIterator[Frame]:
    """Server-sent events as they arrive, comments included."""
    lines: list[str] = []
    async for line in response.aiter_lines():
        if line:
            lines.append(line)
            continue
        if lines and lines[0].startswith(":"):
            yield Frame(None, None, None)
        elif lines:
            fields = dict(one.split(": ", 1) for one in lines)
            yield Frame(int(fields["id"]), fields["event"], json.loads(fields["data"]))
        lines = []


async def begin(house: House, owner: str = "alice") -> str:
    """A run that the test drives itself."""
    run_id = new_id("run")
    await house.agent.begin(Grant("acme", owner, Purpose.RUN, "req-1", 0, run_id), run_id)
    return run_id


async def delta(house: House, run_id: str, count: int = 1) -> None:
    for n in range(count):
        await house.agent.append(run_id, "message-delta", {"text": f"{n} 好"})


async def read(
    client: httpx.AsyncClient, run_id: str, last_id: str | None = None, most: int | None = None
) -> list[Frame]:
    """The events until the stream ends, or the first `most` of them."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    got: list[Frame] = []
    async with asyncio.timeout(60), client.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as response:
        assert response.status_code == 200
        async for one in frames(response):
            if one.id is not None:
                got.append(one)
            if len(got) == most:
                break
    return got


def ids(got: list[Frame]) -> list[int | None]:
    return [one.id for one in got]


def seats(house: House, run_id: str) -> list[HubSeat]:
    hub: LiveHub = house.gateway.app.state.connection.hub
    return list(hub._seats.get(RunKey("acme", run_id), ()))


async def stubborn(house: House, run_id: str) -> tuple[socket.socket, bytes]:
    """A client that has asked for the events and then takes nothing more off its socket."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", house.settings.gateway_port))
    head = f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.token()}\r\n\r\n"
    await loop.sock_sendall(connection, head.encode())
    return connection, await loop.sock_recv(connection, 1024)
