"""A child that does one thing and ends: provisioning, between the stores and the services."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from placet.cli.supervisor.child import ChildFailedError, tail
from placet.cli.supervisor.journal import Journal
from placet.cli.supervisor.tied import tied


async def run(
    name: str, command: list[str], environment: Mapping[str, str], *, log: Path, journal: Journal, timeout_s: float
) -> None:
    """Run it to its end; what it prints goes to its log, and its lines for people to the journal.

    A process of its own, because what it needs (migrations, parsers, an embedding model) would stay in the
    supervisor's memory for ever. Raises `ChildFailedError` unless it ends with 0 in time; ended if we are cancelled.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *tied(command, signal.SIGKILL),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(timeout_s):
                if process.stdout is not None:
                    async for line in process.stdout:
                        journal.say(f"  {line.decode('utf-8', 'replace').rstrip()}")
                code = await process.wait()
        except TimeoutError:
            raise ChildFailedError(f"{name} took more than {timeout_s:g} s; the end of {log}:\n{tail(log)}") from None
        finally:
            with suppress(ProcessLookupError):
                if process.returncode is None:
                    process.kill()
            await process.wait()
    if code != 0:
        raise ChildFailedError(f"{name} failed (exit code {code}); the end of {log}:\n{tail(log)}")
