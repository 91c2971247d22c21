"""Governed calls outside a chat, and search."""

from __future__ import annotations

from typing import Any

from placet.client.models import Hit, ToolCall
from placet.client.transport import Transport
from placet.contracts.tools import ToolDescriptor


class Tools:
    """`client.tools`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> tuple[ToolDescriptor, ...]:
        """What the caller may use now."""
        body = (await self._transport.get("/api/tools")).body
        return tuple(ToolDescriptor.model_validate(item) for item in body["items"])

    async def call(self, name: str, args: dict[str, Any], *, idempotency_key: str | None = None) -> ToolCall:
        """One governed call. Raises `ApiError` with the executor's code."""
        answer = await self._transport.post(f"/api/tools/{name}/calls", {"args": args}, idempotency_key=idempotency_key)
        return ToolCall.model_validate(answer.body)

    async def search(self, query: str, *, k: int = 10) -> tuple[Hit, ...]:
        body = (await self._transport.get("/api/search", {"q": query, "k": k})).body
        return tuple(Hit.model_validate(item) for item in body["items"])
