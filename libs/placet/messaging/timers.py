"""Durable timers: a message scheduled on the TIMERS stream, published by the server when its time has come.

They survive restarts of everything. A timer fires up to a quarter of a second late, and may fire twice: the handler
decides by the state of its entity, never by the timer alone. What has fired is kept for `KEPT_S`, for the case that
everybody who would handle it is away, and then goes by itself: the stream does not grow with what is long over.
"""

from __future__ import annotations

from datetime import UTC, datetime

import nats.errors

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.append import MESSAGE_ID
from placet.messaging.connection import Bus

_SCHEDULE = "Nats-Schedule"
_TARGET = "Nats-Schedule-Target"
_TTL = "Nats-Schedule-TTL"
KEPT_S = 30 * 86_400
_TIMEOUT_S = 3.0


def fire_subject(owner: str, tenant: str, entity: str) -> str:
    return f"timers.fire.{subjects.token(owner)}.{subjects.token(tenant)}.{subjects.token(entity)}"


class Timers:
    """Arms timers of one owner."""

    def __init__(self, bus: Bus, owner: str) -> None:
        self._bus = bus
        self._owner = owner

    async def arm(self, tenant: str, entity: str, at: datetime) -> None:
        """Fire once at `at` (aware). Arming again replaces the earlier time.

        Raises `PlacetError(dependency_unavailable)` when the timer could not be stored.
        """
        target = fire_subject(self._owner, tenant, entity)
        when = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        headers = {_SCHEDULE: f"@at {when}", _TARGET: target, _TTL: f"{KEPT_S}s", MESSAGE_ID: f"{target}@{when}"}
        try:
            subject = target.replace(".fire.", ".at.", 1)
            await self._bus.requests.store(subject, b"", headers=headers, timeout_s=_TIMEOUT_S)
        except (nats.errors.Error, TimeoutError) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The timer was not stored.") from error
