"""The tool-executor with a `refund_payment` that pays through a provider first and then writes it into the books."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx

from placet.contracts.errors import ErrorCode, PlacetError
from placet.observability import logs
from placet.observability.lifecycle import run, run_until_stopped
from placet.packs.business.pack import BusinessPack
from placet.packs.business.refunds import NAME
from placet.toolkit import PackEnvironment, ToolContext, ToolPack, ToolResult, ToolSpec
from placet.toolkit.registry import discover
from services.tool_executor.app import build
from services.tool_executor.settings import Settings


class PayingPack(BusinessPack):
    """The business pack, its refund behind a provider: money first, then the books, both under the same key."""

    def tools(self) -> Sequence[ToolSpec]:
        return [self._paying(spec) if spec.name == NAME else spec for spec in super().tools()]

    def _paying(self, spec: ToolSpec) -> ToolSpec:
        books = spec.handler

        async def handle(ctx: ToolContext, args: Any) -> ToolResult:
            body = {"order_id": args.order_id, "amount": str(args.amount)}
            await self._ask("PUT", str(ctx.idempotency_key), body)
            return await books(ctx, args)  # type: ignore[return-value]

        async def lookup(ctx: ToolContext, args: Any) -> ToolResult | None:
            """What was paid is in the books before anybody is told; what was not paid has not happened."""
            paid = await self._ask("GET", str(ctx.idempotency_key))
            return await books(ctx, args) if paid else None  # type: ignore[return-value]

        return replace(spec, handler=handle, hooks=replace(spec.hooks, lookup=lookup))

    async def _ask(self, method: str, key: str, body: dict[str, str] | None = None) -> bool:
        try:
            answer = await self._http.request(method, f"/payments/{key}", json=body)
        except httpx.TransportError as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The provider gave no answer.") from error
        return answer.status_code == 200

    async def open(self, environment: PackEnvironment) -> None:
        await super().open(environment)
        self._http = httpx.AsyncClient(base_url=environment.settings["provider"], timeout=5)

    async def close(self) -> None:
        await self._http.aclose()
        await super().close()


def _packs() -> list[ToolPack]:
    return [PayingPack() if pack.name == "business" else pack for pack in discover()]


async def serve(settings: Settings) -> None:
    service = await build(settings, _packs())
    await service.start()
    await run_until_stopped()
    await service.stop()


def main() -> None:
    logs.configure("tool-executor", os.environ.get("PLACET_LOG_LEVEL", "INFO"))
    run(serve(Settings()))


if __name__ == "__main__":
    main()
