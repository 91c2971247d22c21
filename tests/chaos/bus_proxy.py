"""Stands between one service and nats-server, reads what passes, and springs the traps."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.chaos.bus_frames import Frame, FrameReader
from tests.chaos.bus_names import Names
from tests.chaos.points import Side, Trap, Traps

_PIECE = 1 << 16


class CutError(Exception):
    """A trap was sprung: nothing more passes on this connection."""


class BusProxy:
    """Listens on a port of its own for one service. A connection ends with whichever end dies first."""

    def __init__(self, service: str, server_port: int, traps: Traps) -> None:
        self._service = service
        self._server_port = server_port
        self._traps = traps
        self._listener: asyncio.Server | None = None

    async def start(self) -> str:
        """The URL for the service."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"nats://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._listener:
            self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        line = _Line(self._service, self._traps, Names())
        ways = (line.said(reader, server_writer), line.heard(server_reader, writer))
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()
            server_writer.close()


class _Line:
    """One connection, both ways."""

    def __init__(self, service: str, traps: Traps, names: Names) -> None:
        self._service = service
        self._traps = traps
        self._names = names
        self._answers: dict[str, Trap] = {}

    async def said(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """From the service to the server."""
        frames = FrameReader()
        while data := await reader.read(_PIECE):
            for frame in frames.feed(data):
                await self._pass_on(frame, server)

    async def _pass_on(self, frame: Frame, server: asyncio.StreamWriter) -> None:
        named = self._names.said(frame)
        trap = self._traps.sprung(Side.BEFORE, self._service, *named) if named else None
        if trap is None:
            server.write(frame.raw)
            return
        if trap.point.side is Side.AFTER:
            server.write(frame.raw)
            if frame.reply:
                self._answers[frame.reply] = trap
                return
        with suppress(ConnectionError):
            await server.drain()
        self._traps.fire(trap)
        raise CutError

    async def heard(self, reader: asyncio.StreamReader, service: asyncio.StreamWriter) -> None:
        """From the server to the service."""
        frames = FrameReader()
        while data := await reader.read(_PIECE):
            for frame in frames.feed(data):
                trap = self._answers.pop(frame.subject, None)
                named = self._names.heard(frame) if trap is None else None
                if named:
                    trap = self._traps.sprung(Side.ON, self._service, *named)
                if trap:
                    self._traps.fire(trap)
                    raise CutError
                service.write(frame.raw)
