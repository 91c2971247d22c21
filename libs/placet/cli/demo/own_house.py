"""A `placet up` of the demo's own: a child process on a temporary state directory."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import typer

from placet.cli import material
from placet.cli.demo.world import READER
from placet.cli.people import TENANT
from placet.cli.supervisor.environment import with_bytecode_cache
from placet.cli.supervisor.tied import tied
from placet.client import ReadyLine

READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0


class NotReadyError(RuntimeError):
    """The own `placet up` did not become ready; it has said why on standard error."""


@dataclass(frozen=True, slots=True)
class House:
    """`tokens` are those of the READY line and one for the reader of the layoff plan."""

    ready: ReadyLine
    tokens: dict[str, str]
    logs: Path


@asynccontextmanager
async def own_house(engine: str) -> AsyncIterator[House]:
    """Started here, stopped at the end by its process id. The directory stays when the block raises.

    Raises `NotReadyError`.
    """
    state = Path(tempfile.mkdtemp(prefix="placet-demo-"))
    command = [sys.executable, "-m", "placet.cli.main", "up", "--state-dir", str(state), "--policy-engine", engine]
    process = await asyncio.create_subprocess_exec(
        *tied(command, signal.SIGTERM),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=with_bytecode_cache(os.environ),
    )
    try:
        ready = await _ready_line(process)
        reader = material.tokens(state / "keys", {READER: (TENANT, READER)})
        yield House(ready, ready.tokens | reader, state / "logs")
    finally:
        await _stop(process)


async def _ready_line(process: asyncio.subprocess.Process) -> ReadyLine:
    if process.stdout is None:
        raise NotReadyError("no output to read")
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            async for line in process.stdout:
                with suppress(ValueError):
                    return ReadyLine.parse(line.decode())
    except TimeoutError:
        raise NotReadyError(f"`placet up` is not ready after {READY_TIMEOUT_S:g} s") from None
    raise NotReadyError(f"`placet up` ended with exit code {await process.wait()}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        typer.echo(f"`placet up` (process {process.pid}) did not stop: killed", err=True)
        process.kill()
        await process.wait()
