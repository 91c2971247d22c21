"""Stands between one service and PostgreSQL, names the statements that pass, and springs the traps."""

from __future__ import annotations

import asyncio
import re
import struct
from contextlib import suppress

from tests.chaos.points import Side, Trap, Traps
from tests.chaos.relay import CutError, Relay

_PIECE = 1 << 16
_NO_ENCRYPTION = (80877103, 80877104)  # requests for TLS and GSSAPI: one byte answers
_TABLE = re.compile(r"\b(?:INTO|UPDATE|FROM)\s+(?:\w+\.)?\"?(\w+)", re.IGNORECASE)


def database_proxy(service: str, server_port: int, traps: Traps) -> Relay:
    """In front of PostgreSQL."""
    return Relay(server_port, lambda: _Line(service, traps))


class _Line:
    """One connection, both ways. What the service sends up to a `Sync` or `Query` is one statement."""

    def __init__(self, service: str, traps: Traps) -> None:
        self._service = service
        self._traps = traps
        self._awaited: Trap | None = None
        self._prepared: dict[bytes, str] = {}
        self._transaction = b""

    async def said(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await self._opening(reader, server)
            batch, sql = b"", ""
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
                batch += head + body
                sql = self._sql(head[:1], body) or sql
                if head[:1] in (b"S", b"Q", b"p", b"X"):
                    await self._pass_on(batch, sql, server)
                    batch, sql = b"", ""

    async def _opening(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(8)
            size, code = struct.unpack("!II", head)
            server.write(head + await reader.readexactly(size - 8))
            if code not in _NO_ENCRYPTION:
                return

    def _sql(self, kind: bytes, body: bytes) -> str:
        if kind == b"Q":
            return body.rstrip(b"\0").decode(errors="replace")
        if kind == b"P":
            name, query, _ = body.split(b"\0", 2)
            self._prepared[name] = query.decode(errors="replace")
            return self._prepared[name]
        return self._prepared.get(body.split(b"\0", 2)[1], "") if kind == b"B" else ""

    async def _pass_on(self, batch: bytes, sql: str, server: asyncio.StreamWriter) -> None:
        what = _statement(sql)
        # The end of a transaction says nothing of whose it was: it belongs to all that was said in it.
        context = batch + self._transaction
        self._transaction = b"" if what in ("COMMIT", "ROLLBACK", "BEGIN") else context[-_PIECE:]
        trap = self._traps.sprung(Side.BEFORE, self._service, what, context) if what else None
        if trap is None or trap.point.side is Side.AFTER:
            self._awaited = trap
            server.write(batch)
            return
        with suppress(ConnectionError):
            await server.drain()
        self._traps.fire(trap)
        raise CutError

    async def heard(self, reader: asyncio.StreamReader, service: asyncio.StreamWriter) -> None:
        while data := await reader.read(_PIECE):
            trap, self._awaited = self._awaited, None
            if trap:
                self._traps.fire(trap)
                raise CutError
            service.write(data)


def _statement(sql: str) -> str:
    """Its first word and its first table: `INSERT refunds`."""
    words = sql.split(None, 1)
    if not words:
        return ""
    verb = words[0].upper().rstrip(";")
    table = _TABLE.search(sql)
    return f"{verb} {table.group(1)}" if table and verb not in ("SET", "BEGIN") else verb
