"""`/healthz`, `/readyz` and `/metrics` of the services that have no other HTTP face."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Check = Callable[[], Awaitable[bool]]
_CHECK_TIMEOUT_S = 2.0


async def run_checks(checks: Mapping[str, Check]) -> dict[str, bool]:
    """Run every check side by side; a check that fails or takes over two seconds counts as false."""

    async def one(check: Check) -> bool:
        try:
            return await asyncio.wait_for(check(), _CHECK_TIMEOUT_S)
        except Exception:  # noqa: BLE001 - whatever breaks a check, the answer is "not ready"
            return False

    results = await asyncio.gather(*(one(check) for check in checks.values()))
    return dict(zip(checks, results, strict=True))


def routes(checks: Mapping[str, Check]) -> list[Route]:
    """The three routes, for a service's own app or for `HealthServer`."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        results = await run_checks(checks)
        return JSONResponse(
            {"ready": all(results.values()), "checks": results}, status_code=200 if all(results.values()) else 503
        )

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


class HealthServer:
    """A small HTTP server beside the service's real work. Port 0 means none.

    It asks for no token, so it listens on this machine only, unless it is told to listen where a monitor can reach it.
    """

    def __init__(self, port: int, checks: Mapping[str, Check], host: str = "127.0.0.1") -> None:
        self._port = port
        config = uvicorn.Config(
            Starlette(routes=routes(checks)), host=host, port=port, log_level="warning", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._port:
            self._task = asyncio.create_task(self._server._serve())

    async def stop(self) -> None:
        if self._task:
            self._server.should_exit = True
            await self._task
