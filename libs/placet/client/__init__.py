"""The Python client of the HTTP API: `async with PlacetClient(url, token) as placet: await placet.runs.chat("…")`."""

from placet.client.connection import PlacetClient
from placet.client.errors import (
    ApiError,
    ConflictError,
    InvalidError,
    LimitReachedError,
    NotAllowedError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from placet.client.ready_line import ReadyLine

__all__ = [
    "ApiError",
    "ConflictError",
    "InvalidError",
    "LimitReachedError",
    "NotAllowedError",
    "NotFoundError",
    "PlacetClient",
    "ReadyLine",
    "UnauthenticatedError",
    "UnavailableError",
]
