"""OPA as a child process, for the embedded system and for tests. In production it is a sidecar (`deploy/opa`)."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Self

from placet.policy.bundle import BUNDLE_NAME
from placet.policy.opa import OpaPolicy

LOOPBACK = "127.0.0.1"
START_ATTEMPTS = 3

OPA_ENVIRONMENT = {"GOGC": "800", "GOMAXPROCS": "1"}
"""One core and few collections: a decision costs a sixth less CPU than on two cores with GOGC=400, and 64 in flight
have a p99 of 105 instead of 476 ms, for 35 MB more memory. One core answers more than the services beside it ask."""


class OpaStartError(RuntimeError):
    """OPA did not become ready; the message ends with the last lines of its log."""


def opa_command(binary: Path, bundle: Path, *, host: str, port: int) -> list[str]:
    """How OPA is started everywhere; `deploy/opa/README.md` lists the same arguments."""
    return [
        str(binary),
        "run",
        "--server",
        f"--addr={host}:{port}",
        "--watch",
        "--skip-version-check",
        "--optimize-store-for-read-speed",
        "--log-level=error",
        "--bundle",
        str(bundle),
    ]


class OpaServer:
    """A running OPA that serves `bundle_dir/bundle.tar.gz` and takes up a newer one by itself."""

    def __init__(self, process: Process, port: int, log_file: Path) -> None:
        self._process = process
        self._log_file = log_file
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @classmethod
    async def start(
        cls, binary: Path, bundle_dir: Path, *, log_file: Path, port: int = 0, ready_timeout_s: float = 15.0
    ) -> Self:
        """`port` 0: a free one. Raises `OpaStartError` when it exits or is not ready in time."""
        for attempt in range(START_ATTEMPTS):
            server = await cls._spawn(binary, bundle_dir / BUNDLE_NAME, log_file, port or _free_port())
            if await server._became_ready(ready_timeout_s):
                return server
            exited = not server.running
            await server.stop()
            # Somebody else may have taken the free port meanwhile; a port that was asked for is not worth a retry.
            if port or not exited or attempt == START_ATTEMPTS - 1:
                break
        raise OpaStartError(f"OPA is not ready: {_tail(log_file)}")

    @classmethod
    async def _spawn(cls, binary: Path, bundle: Path, log_file: Path, port: int) -> Self:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *opa_command(binary, bundle, host=LOOPBACK, port=port),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**OPA_ENVIRONMENT, **os.environ},
                start_new_session=True,
            )
        return cls(process, port, log_file)

    async def _became_ready(self, timeout_s: float) -> bool:
        policy = await OpaPolicy.open(self.url, timeout_s=2.0)
        deadline = time.monotonic() + timeout_s
        try:
            while self.running and time.monotonic() < deadline:
                if await policy.ready():
                    return True
                await asyncio.sleep(0.02)
        finally:
            await policy.close()
        return False

    async def wait(self) -> int:
        """Its exit code, once it ends by itself or by `stop`."""
        return await self._process.wait()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """SIGTERM, then SIGKILL after `grace_s`. Does nothing when it already ended."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _tail(log_file: Path, lines: int = 5) -> str:
    return " | ".join(log_file.read_text(errors="replace").splitlines()[-lines:]) if log_file.exists() else "no log"
