"""Live events: what the server republishes after storing it, as a plain subscription.

A follower sees only what is on disk (an append that lost its compare-and-set never shows), and it creates no consumer:
a consumer's delivery subject is chosen by its creator, which is not a right to hand to another trust domain. What a
plain subscription may miss while reconnecting, the follower reads back from the stream by sequence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg

from placet.contracts.topology import STORED_PREFIX
from placet.messaging.connection import Bus
from placet.messaging.reading import Stored, stored

LiveHandler = Callable[[Stored], Awaitable[None]]


class LiveEvents:
    """Follows the stored events of one owner, of all tenants."""

    def __init__(self, bus: Bus, owner: str, handler: LiveHandler) -> None:
        self._bus = bus
        self._owner = owner
        self._handler = handler

    async def start(self) -> None:
        subject = f"{STORED_PREFIX}.placet.*.{self._owner}.evt.>"
        await self._bus.client.subscribe(subject, cb=self._on_message, pending_msgs_limit=65_536)
        await self._bus.client.flush()

    async def _on_message(self, message: Msg) -> None:
        headers = message.headers or {}
        sequence = headers.get("Nats-Sequence", "")
        if not sequence.isdigit():
            return
        event = stored(headers.get("Nats-Subject", ""), int(sequence), message.data, headers, None)
        if event:
            await self._handler(event)
