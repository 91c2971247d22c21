"""Batched direct get: one request, many replies, answered by any replica that holds the stream."""

from __future__ import annotations

import nats.errors
import orjson
from nats.aio.msg import Msg

from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.connection import Bus

BATCH = 256
_TIMEOUT_S = 3.0
_ENDS = ("204", "404")  # the end of a batch; nothing there at all


async def batch(bus: Bus, stream: str, request: dict[str, object]) -> list[Msg]:
    """The stored messages that `request` names. Raises `PlacetError(dependency_unavailable)`."""
    subject = f"{bus.settings.api_prefix}.DIRECT.GET.{stream}"
    try:
        messages, status = await bus.requests.collect(subject, orjson.dumps(request), timeout_s=_TIMEOUT_S)
    except (nats.errors.Error, TimeoutError) as error:
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The event store is not available.") from error
    if status not in _ENDS:
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, f"The event store answered {status}.")
    return messages


def sequence(message: Msg) -> int:
    """Where a message that came by direct get lies on its stream."""
    return int((message.headers or {})["Nats-Sequence"])
