"""What the edge has learnt about one HTTP call, for the steps behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from starlette.types import Scope

from placet.identity.tokens import Principal
from services.gateway.ports import Ports

_KEY = "placet.exchange"
API = "/api/"


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """An uploaded file and the fields beside it. `content` stands at its start and is closed after the call."""

    fields: dict[str, str]
    filename: str
    size: int
    sha256: str
    content: IO[bytes]


@dataclass(slots=True)
class Exchange:
    """Filled step by step. `seed` is set when the call has an idempotency key: ids are then derived from it."""

    request_id: str
    principal: Principal | None = None
    body: bytes = b""
    file: ReceivedFile | None = None
    seed: tuple[str, ...] | None = None


def begin(scope: Scope, request_id: str) -> Exchange:
    exchange = Exchange(request_id)
    scope[_KEY] = exchange
    return exchange


def exchange_of(scope: Scope) -> Exchange:
    exchange: Exchange = scope[_KEY]
    return exchange


def ports_of(scope: Scope) -> Ports:
    ports: Ports = scope["app"].state.ports
    return ports


def guarded(scope: Scope) -> bool:
    """Whether a call needs a person: everything below `/api/`, whether there is such a route or not."""
    return scope["type"] == "http" and str(scope["path"]).startswith(API)
