"""Wiring of the gateway, and its life from start to drained stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from placet import __version__
from placet.audit.trail import AuditTrail
from placet.identity import keys
from placet.identity.grants import GrantMint, GrantVerifier
from placet.identity.tokens import FetchJwks, TokenVerifier, jwks_from_file
from placet.messaging.append import AuditWriter
from placet.messaging.connection import Bus, BusSettings, read_seed
from placet.messaging.kv import KeyValue
from placet.messaging.live import LiveEvents
from placet.messaging.rpc import RpcClient
from placet.observability import health, logs
from placet.observability.lifecycle import run, run_until_stopped
from services.gateway.adapters.bus_runs import OWNER as RUN_OWNER
from services.gateway.adapters.bus_runs import BusRuns
from services.gateway.adapters.jwks import HttpJwks
from services.gateway.adapters.kv_idempotency import KvIdempotency
from services.gateway.adapters.live_hub import LiveHub
from services.gateway.handlers import (
    audit,
    chat,
    directory,
    documents,
    effects,
    memory,
    problems,
    proposals,
    publishing,
    rebuilds,
    runs,
    search,
    tools,
    uploads,
)
from services.gateway.handlers.description import describe
from services.gateway.handlers.edge.authentication import AuthenticationStep
from services.gateway.handlers.edge.body_limit import BodyLimitStep
from services.gateway.handlers.edge.idempotency import IdempotencyStep
from services.gateway.handlers.edge.request_context import RequestContextStep
from services.gateway.ports import Ports, UploadSpace, Waits
from services.gateway.settings import Settings

OWNER = "gateway"
log = logs.get(__name__)

_RESOURCES = (
    chat,
    runs,
    tools,
    search,
    documents,
    uploads,
    rebuilds,
    publishing,
    proposals,
    effects,
    directory,
    audit,
    memory,
)
# From the inside out: every call passes the last one first.
_EDGE = (IdempotencyStep, BodyLimitStep, AuthenticationStep, RequestContextStep)

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


@dataclass(slots=True)
class Connection:
    """What exists only while the app runs."""

    hub: LiveHub
    bus: Bus | None = None

    async def ready(self) -> bool:
        return self.bus is not None and await self.bus.ready()


def build(settings: Settings) -> FastAPI:
    """The app; it connects to the bus when it is started. Raises `OSError` or `ValueError` for unusable key files."""
    key = keys.read(settings.gateway_grant_key_file)
    bus_settings = BusSettings(settings.nats_url, OWNER, read_seed(settings.nats_seed, settings.nats_seed_file))
    connection = Connection(LiveHub())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            log.info("connecting", url=settings.nats_url)
            bus = await Bus.connect(bus_settings)
            stack.push_async_callback(bus.close)
            fetch = _key_source(settings, stack)
            await LiveEvents(bus, RUN_OWNER, connection.hub.on_event).start()
            bus.on_reconnect(connection.hub.recheck)
            app.state.ports = Ports(
                tokens=TokenVerifier(fetch, settings.gateway_issuer, settings.gateway_audience),
                mint=GrantMint(key),
                commands=RpcClient(bus),
                runs=BusRuns(bus, GrantVerifier(key)),
                live=connection.hub,
                idempotency=KvIdempotency(KeyValue(bus, "IDEMPOTENCY")),
                audit=AuditTrail(AuditWriter(bus), OWNER),
                waits=_waits(settings),
                uploads=_upload_space(settings),
            )
            connection.bus = bus
            log.info("ready")
            yield

    return assemble(connection, lifespan)


def _upload_space(settings: Settings) -> UploadSpace:
    return UploadSpace(
        max_bytes=settings.gateway_upload_bytes,
        places=asyncio.Semaphore(settings.gateway_uploads_at_once),
        silence_s=settings.gateway_upload_silence_s,
        whole_s=settings.gateway_upload_wait_s,
    )


def drain(app: FastAPI) -> None:
    """End every event stream and every chat that waits, so that a stop does not wait for them."""
    connection: Connection = app.state.connection
    connection.hub.close()


def assemble(connection: Connection, lifespan: Lifespan | None = None) -> FastAPI:
    """Routes and edge. Without a lifespan the app can be described, but answers nothing."""
    app = FastAPI(
        title="Placet",
        version=__version__,
        description="The model proposes; policy, people and the program decide and execute.",
        lifespan=lifespan,
        redirect_slashes=False,
        redoc_url=None,
    )
    app.state.connection = connection
    for resource in _RESOURCES:
        app.include_router(resource.router)
    app.router.routes.extend(health.routes({"bus": connection.ready}))
    problems.install(app)
    for step in _EDGE:
        app.add_middleware(step)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def _key_source(settings: Settings, stack: AsyncExitStack) -> FetchJwks:
    if settings.gateway_jwks_file is not None:
        return jwks_from_file(settings.gateway_jwks_file)
    source = HttpJwks(settings.gateway_jwks_url or "")
    stack.push_async_callback(source.close)
    return source


def _waits(settings: Settings) -> Waits:
    return Waits(
        chat_s=settings.gateway_chat_wait_s,
        heartbeat_s=settings.gateway_heartbeat_s,
        publish_s=settings.gateway_publish_wait_s,
    )


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises `SystemExit` when the start failed."""
    app = build(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.gateway_host,
            port=settings.gateway_port,
            http="httptools",
            access_log=False,
            server_header=False,
            log_level="warning",
            timeout_graceful_shutdown=settings.gateway_grace_s,
        )
    )
    # Without uvicorn's own signal handling: streams have to end before it starts to wait for them.
    stopped = asyncio.create_task(run_until_stopped())
    serving = asyncio.create_task(server._serve())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    drain(app)
    server.should_exit = True
    if not server.started:
        # Still waiting for the bus, or failed already (and said why).
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        raise SystemExit(1)
    await serving


def main() -> None:
    settings = Settings()
    logs.configure(OWNER, settings.log_level)
    run(serve(settings))
