"""The OpenAPI document, made without connecting to anything."""

from __future__ import annotations

from typing import Any

from services.gateway.adapters.live_hub import LiveHub
from services.gateway.app import Connection, assemble
from services.gateway.handlers.description import describe


def document() -> dict[str, Any]:
    return describe(assemble(Connection(LiveHub())))
