"""A payment provider outside: takes money once per idempotency key, can be asked, and counts what it is asked."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress

from tests.chaos.points import Side, Trap, Traps

_PLACE = "provider"


class Provider:
    """HTTP on a port of its own: `PUT /payments/KEY` pays, `GET /payments/KEY` looks up."""

    def __init__(self, traps: Traps) -> None:
        self._traps = traps
        self._listener: asyncio.Server | None = None
        self.payments: dict[str, dict[str, object]] = {}
        self.asked: Counter[str] = Counter()
        self.lookups: Counter[str] = Counter()

    async def start(self) -> str:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._listener:
            self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, path, *_ = head.split()
                size = next((int(v.split(":")[1]) for v in head.split("\r\n") if v.lower().startswith("content-l")), 0)
                answer = self._answer(method, path.rsplit("/", 1)[1], await reader.readexactly(size))
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        writer.close()

    def _answer(self, method: str, key: str, body: bytes) -> bytes | None:
        """None: whoever asked has died over it."""
        what, raw = ("payment" if method == "PUT" else "lookup"), key.encode() + body
        trap = self._traps.sprung(Side.BEFORE, _PLACE, what, raw)
        if trap and trap.point.side is Side.BEFORE:
            self._traps.fire(trap)
            return None
        if method == "PUT":
            self.asked[key] += 1
            self.payments.setdefault(key, json.loads(body))
        else:
            self.lookups[key] += 1
        return self._dead(trap) if trap else _http(self.payments.get(key))

    def _dead(self, trap: Trap) -> None:
        self._traps.fire(trap)


def _http(payment: dict[str, object] | None) -> bytes:
    body = json.dumps(payment or {}).encode()
    status = "200 OK" if payment else "404 Not Found"
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
