"""Two hundred clients on one gateway process, fifty events a second: how late they come, and what the gateway spends.

The clients are bare sockets of this process: what is measured is the gateway, not a client library.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from typing import cast

import psutil

from placet.contracts.errors import PlacetError
from tests.integration.governance_rig import ROOT

sys.path.insert(0, str(ROOT / "tests" / "integration"))
from gateway_process import process
from gateway_rig import House, open_house
from gateway_streams import begin

CLIENTS = 200
EVENTS_PER_S = 50
SECONDS = 8
_SENT = re.compile(rb'"text":"(\d+)"')


class Client(asyncio.Protocol):
    """Reads when each event was sent out of its text; `latencies` in seconds."""

    def __init__(self, head: bytes, latencies: list[float]) -> None:
        self._head = head
        self._latencies = latencies
        self._rest = b""
        self.seen = 0
        self.open = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked by type: uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.open.set()
        for sent in map(_SENT.search, lines):
            if sent:
                self._latencies.append((now - int(sent.group(1))) / 1e9)
                self.seen += 1

    def close(self) -> None:
        self._transport.close()


async def main(engine: str | None = None) -> None:
    """`engine` does not matter here: a small stand-in answers for the executor."""
    async with open_house() as house, process(house, PLACET_LOG_LEVEL="ERROR") as gateway:
        await gateway.until_up()
        run_id = await begin(house)
        latencies: list[float] = []
        clients = await _connect(house, gateway.url, run_id, latencies)
        child = psutil.Process(gateway.child.pid)
        before, started = child.cpu_times(), time.monotonic()
        sent = await _talk(house, run_id)
        elapsed, after = time.monotonic() - started, child.cpu_times()
        try:
            async with asyncio.timeout(60):
                while any(client.seen < sent for client in clients):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise RuntimeError(f"events are missing: {[client.seen for client in clients]} of {sent}") from None
        finally:
            for client in clients:
                client.close()
        cpu = after.user + after.system - before.user - before.system
        _print(latencies, sent, elapsed, cpu)


async def _connect(house: House, url: str, run_id: str, latencies: list[float]) -> list[Client]:
    port = int(url.rsplit(":", 1)[1])
    head = (
        f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.token()}\r\n\r\n".encode()
    )
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(CLIENTS):
        _, client = await loop.create_connection(lambda: Client(head, latencies), "127.0.0.1", port)
        clients.append(client)
    async with asyncio.timeout(60):
        for client in clients:
            await client.open.wait()
    return clients


async def _talk(house: House, run_id: str) -> int:
    started = time.monotonic()
    for number in range(EVENTS_PER_S * SECONDS):
        await asyncio.sleep(max(0.0, started + number / EVENTS_PER_S - time.monotonic()))
        try:
            await house.agent.append(run_id, "message-delta", {"text": str(time.monotonic_ns())})
        except PlacetError as error:
            raise RuntimeError("the bus does not keep up") from error
    return EVENTS_PER_S * SECONDS


def _print(latencies: list[float], sent: int, elapsed: float, cpu: float) -> None:
    latencies.sort()
    p50, p99 = latencies[len(latencies) // 2] * 1e3, latencies[int(len(latencies) * 0.99)] * 1e3
    print(
        f"\n{CLIENTS} clients, {sent / elapsed:.0f} events/s: delivered p50 {p50:.1f} ms, p99 {p99:.1f} ms;"
        f" gateway CPU {cpu / elapsed * 100:.0f}% of a core, {cpu / len(latencies) * 1e6:.0f} us a delivery"
    )
