"""Queued commands: stored before the sender goes on, worked on later by whoever fetches them."""

from __future__ import annotations

import asyncio

import nats.errors

from placet.contracts import subjects
from placet.contracts.envelope import Command
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging import wire
from placet.messaging.append import MESSAGE_ID
from placet.messaging.connection import Bus
from placet.observability.context import current

_TRIES = 3
_TRY_TIMEOUT_S = 2.0


class CommandQueue:
    """Puts commands into a work queue."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._source = f"placet/{bus.settings.user}"

    async def put(self, tenant: str, owner: str, name: str, entity: str, command: Command) -> None:
        """Store a command for `entity` (a subject token). Within the stream's window, the same entity is queued once.

        Raises `PlacetError(dependency_unavailable)` when the server did not confirm; it may be stored all the same.
        """
        message_id = f"{tenant}:{entity}"
        payload = wire.encode(
            message_id=message_id,
            source=self._source,
            type_=f"placet.{owner}.{name}.v1",
            subject=entity,
            context=current(),
            tenant=tenant,
            data=command,
        )
        subject = subjects.command(tenant, owner, name, subjects.token(entity))
        for attempt in range(1, _TRIES + 1):
            try:
                headers = {MESSAGE_ID: message_id}
                await self._bus.requests.store(subject, payload, headers=headers, timeout_s=_TRY_TIMEOUT_S)
                return
            except (nats.errors.Error, TimeoutError) as error:
                if attempt == _TRIES:
                    raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The command could not be queued.") from error
                await asyncio.sleep(0.1 * attempt)
