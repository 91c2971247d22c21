"""One connection per process, and how it behaves when the server goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from placet.contracts.topology import CORE_API_PREFIX, SERVICE_DOMAIN, Domain
from placet.messaging.requests import Requests
from placet.observability import logs

log = logs.get(__name__)

API_TIMEOUT_S = 5.0
RECONNECT_WAIT_S = 0.25


@dataclass(frozen=True, slots=True)
class BusSettings:
    """Where the bus is and as whom to connect. `seed` is the user's nkey seed; `user` names it in the topology."""

    url: str
    user: str
    seed: str

    @property
    def domain(self) -> Domain:
        return SERVICE_DOMAIN[self.user]

    @property
    def inbox_prefix(self) -> str:
        return f"_INBOX_{self.user}"

    @property
    def api_prefix(self) -> str:
        """Where this user reaches the JetStream API: CORE owns it, others have it imported under a prefix."""
        return "$JS.API" if self.domain is Domain.CORE else CORE_API_PREFIX


def read_seed(seed: str, seed_file: Path | None) -> str:
    """The nkey seed from a setting or from a file; raises `ValueError` when neither is given."""
    if seed:
        return seed
    if seed_file is None:
        raise ValueError("set PLACET_NATS_SEED or PLACET_NATS_SEED_FILE")
    return seed_file.read_text(encoding="utf-8").strip()


class BusUnreachableError(nats.errors.NoServersError):
    """The server does not come up, or does not take the credentials: the message says which."""

    def __init__(self, refusal: Exception | None) -> None:
        super().__init__()
        self._refusal = refusal

    def __str__(self) -> str:
        return str(self._refusal or "no answer")


class Bus:
    """A connected client. Reconnects for ever; while it is away, calls fail fast instead of being sent later."""

    def __init__(self, settings: BusSettings, client: Client) -> None:
        self.settings = settings
        self.client = client
        self.requests = Requests(client)
        self.js: JetStreamContext = client.jetstream(prefix=settings.api_prefix, timeout=API_TIMEOUT_S)
        self._on_reconnect: list[Callable[[], Awaitable[None]]] = []

    @classmethod
    async def connect(cls, settings: BusSettings, *, patience_s: float = 30.0) -> Bus:
        """Connect, trying for up to `patience_s` seconds.

        Raises `BusUnreachableError`, caused by the last refusal.
        """
        bus: Bus | None = None
        refusal: Exception | None = None

        async def on_error(error: Exception) -> None:
            nonlocal refusal
            refusal = error
            log.warning("bus error", error=repr(error))

        async def on_disconnect() -> None:
            log.warning("bus disconnected")

        async def on_reconnect() -> None:
            log.info("bus reconnected")
            if bus is not None:
                for callback in bus._on_reconnect:
                    await callback()

        client = Client()
        try:
            # The client itself tries again without end, since it must reconnect without end.
            async with asyncio.timeout(patience_s):
                await client.connect(
                    settings.url,
                    name=settings.user,
                    nkeys_seed_str=settings.seed,
                    inbox_prefix=settings.inbox_prefix,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # seconds; fractions are taken
                    connect_timeout=2,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    # Nothing is kept for later: a publish that timed out must not reach the server afterwards.
                    pending_size=-1,
                    error_cb=on_error,
                    disconnected_cb=on_disconnect,
                    reconnected_cb=on_reconnect,
                )
        except TimeoutError as error:
            await client.close()
            raise BusUnreachableError(refusal) from (refusal or error)
        bus = cls(settings, client)
        await bus.requests.open()
        return bus

    def on_reconnect(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Run `callback` after each reconnection (to fill gaps of plain subscriptions)."""
        self._on_reconnect.append(callback)

    async def ready(self) -> bool:
        """Whether the server answers now."""
        if not self.client.is_connected:
            return False
        try:
            await self.client.flush(timeout=1)
        except (nats.errors.Error, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        """Finish what is in flight, then disconnect; also while the server is away."""
        if self.client.is_closed:
            return
        if not await _ended_well(self.client.drain(), 5):
            await _ended_well(self.client.close(), 2)


async def _ended_well(work: Coroutine[Any, Any, None], within_s: float) -> bool:
    """Whether `work` came to its end in time. In a task of its own: a client whose line is cut cancels itself."""
    task = asyncio.create_task(work)
    await asyncio.wait({task}, timeout=within_s)
    if not task.done():
        task.cancel()
        return False
    return not task.cancelled() and task.exception() is None
