"""Stands between one service and nats-server, reads what passes, and springs the traps."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.chaos.bus_frames import Frame, FrameReader
from tests.chaos.bus_names import Names
from tests.chaos.points import Side, Trap, Traps
from tests.chaos.relay import CutError, Relay

_PIECE = 1 << 16


def bus_proxy(service: str, server_port: int, traps: Traps) -> Relay:
    """In front of nats-server."""
    return Relay(server_port, lambda: _Line(service, traps, Names()))


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
