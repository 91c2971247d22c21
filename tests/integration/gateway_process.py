"""The gateway as a process of its own, started as in production, killed and started again on the same port."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from gateway_rig import House

from placet.testkit.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


class GatewayProcess:
    """`python -m services.gateway`. `child` is the process of the moment."""

    child: asyncio.subprocess.Process

    def __init__(self, house: House, **environment: str) -> None:
        port = free_port()
        settings = house.settings
        self.url = f"http://127.0.0.1:{port}"
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "libs"))),
            "PLACET_NATS_URL": settings.nats_url,
            "PLACET_NATS_SEED_FILE": str(settings.nats_seed_file),
            "PLACET_GATEWAY_PORT": str(port),
            "PLACET_GATEWAY_JWKS_FILE": str(settings.gateway_jwks_file),
            "PLACET_GATEWAY_GRANT_KEY_FILE": str(settings.gateway_grant_key_file),
            "PLACET_GATEWAY_ISSUER": settings.gateway_issuer,
            "PLACET_GATEWAY_AUDIENCE": settings.gateway_audience,
            **environment,
        }

    async def start(self) -> None:
        self.child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.gateway"),
            cwd=ROOT,
            env=self._environment,
            stderr=asyncio.subprocess.PIPE,
        )

    async def until_up(self) -> None:
        async with httpx.AsyncClient(base_url=self.url) as client, asyncio.timeout(60):
            while True:
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)

    async def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        self.child.send_signal(number)
        # Read on while it stops: a full pipe would keep it from ending.
        await self.child.communicate()
        return await self.child.wait()


@asynccontextmanager
async def process(house: House, **environment: str) -> AsyncIterator[GatewayProcess]:
    gateway = GatewayProcess(house, **environment)
    await gateway.start()
    try:
        yield gateway
    finally:
        if gateway.child.returncode is None:
            gateway.child.kill()
        await gateway.child.wait()
