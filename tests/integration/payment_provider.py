"""A payment provider over real HTTP, small and able to fail in every way a real one does.

`python -m tests.integration.payment_provider PORT` serves it as a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, Any] | bytes]


@dataclass(slots=True)
class Provider:
    """Money is taken once per key. `faults` are used up by the next requests that act, one each:

    `silent` (pays, never answers), `dropped` (pays, ends the connection inside the answer), `garbage` (pays, answers
    nonsense), `error_after` (pays, 500), `error_before` (500), `busy` (429), `declined` (402).
    """

    faults: deque[str] = field(default_factory=deque)
    refunds: dict[str, dict[str, Any]] = field(default_factory=dict)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    # What it says it has paid is this many times what was asked for.
    factor: Decimal = Decimal(1)
    port: int = 0
    retry_after: str = "1"
    _server: asyncio.Server | None = None
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        self._gone = asyncio.Event()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Gone: connections are refused until it is started again, on the same port, with its books."""
        if self._server is not None:
            self._gone.set()
            self._server.close()
            self._server = None

    def of_order(self, order_id: str) -> list[dict[str, Any]]:
        return [refund for refund in self.refunds.values() if refund["order_id"] == order_id]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request per connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            method, target, _ = lines[0].split(" ")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            raw = await reader.readexactly(int(headers.get("content-length", "0")))
            # Header values were lowered with their names; a key is lower case as it is.
            await self._answer(writer, method, target, headers.get("idempotency-key", ""), raw)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, method: str, target: str, key: str, raw: bytes) -> None:
        fault = self.faults.popleft() if method == "POST" and self.faults else ""
        if fault in ("busy", "error_before", "declined"):
            status = {"busy": 429, "error_before": 500, "declined": 402}[fault]
            await self._write(writer, status, {"error": fault})
            return
        status, body = self._handle(method, target, key, raw)
        if fault == "silent":
            await self._gone.wait()
        elif fault == "dropped":
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Le")
            await writer.drain()
        elif fault == "garbage":
            await self._write(writer, 201, b"<html>paid</html>")
        else:
            await self._write(writer, 500 if fault == "error_after" else status, body)

    def _handle(self, method: str, target: str, key: str, raw: bytes) -> Answer:
        url = urlsplit(target)
        if method == "GET" and url.path == "/v1/refunds":
            wanted = parse_qs(url.query)["idempotency_key"][0]
            self.asked[wanted] += 1
            found = self.refunds.get(wanted)
            return 200, {"items": [self._told(found)] if found else []}
        if method == "POST" and url.path == "/v1/refunds":
            return self._refund(key, json.loads(raw))
        if method == "POST" and url.path.endswith("/cancel"):
            return self._cancel(url.path.split("/")[3])
        return 404, {"error": "no such path"}

    def _refund(self, key: str, body: dict[str, Any]) -> Answer:
        if not key:
            return 400, {"error": "no idempotency key"}
        if key in self.refunds:
            if self.bodies[key] != body:
                return 409, {"error": "idempotency key reused"}
            return 200, self._told(self.refunds[key])
        self.paid[key] += 1
        self.bodies[key] = body
        number = f"re_{len(self.refunds) + 1}"
        self.refunds[key] = {
            "id": number,
            "order_id": body["order_id"],
            "amount": body["amount"],
            "currency": body["currency"],
            "status": "succeeded",
        }
        return 201, self._told(self.refunds[key])

    def _cancel(self, refund_id: str) -> Answer:
        found = next((refund for refund in self.refunds.values() if refund["id"] == refund_id), None)
        if found is None:
            return 404, {"error": "no such refund"}
        found["status"] = "cancelled"
        return 200, self._told(found)

    def _told(self, refund: dict[str, Any]) -> dict[str, Any]:
        return refund | {"amount": f"{Decimal(refund['amount']) * self.factor:f}"}

    async def _write(self, writer: asyncio.StreamWriter, status: int, body: dict[str, Any] | bytes) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        head += f"Retry-After: {self.retry_after}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()


async def main(port: int) -> None:
    provider = Provider(port=port)
    await provider.start()
    print(provider.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
