"""Stands between one service and a server: a listener of its own, and a line per connection that reads what passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class CutError(Exception):
    """A trap was sprung: nothing more passes on this connection."""


class Line(Protocol):
    """One connection, both ways."""

    async def said(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """From the service to the server."""
        ...

    async def heard(self, reader: asyncio.StreamReader, service: asyncio.StreamWriter) -> None:
        """From the server to the service."""
        ...


class Relay:
    """Listens for one service. A connection ends with whichever end dies first."""

    def __init__(self, server_port: int, line: Callable[[], Line]) -> None:
        self._server_port = server_port
        self._line = line
        self._listener: asyncio.Server | None = None

    async def start(self) -> int:
        """The port for the service."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._listener:
            self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        line = self._line()
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
