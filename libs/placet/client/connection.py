"""`PlacetClient`: one person's view of one gateway."""

from __future__ import annotations

import copy
from types import TracebackType
from typing import Self

import httpx

from placet.client.audit import Audit
from placet.client.directory import DirectoryAdmin
from placet.client.documents import Documents
from placet.client.errors import ApiError
from placet.client.proposals import Proposals
from placet.client.runs import Runs
from placet.client.tools import Tools
from placet.client.transport import TIMEOUT_S, Transport


class PlacetClient:
    """Calls the gateway as the person the token is about. Use as an async context manager, or call `close`."""

    def __init__(self, url: str, token: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport` replaces the network (an in-process application, in tests)."""
        http = httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, transport=transport)
        self._transport = Transport(http, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.http.aclose()

    def with_request_id(self, request_id: str) -> PlacetClient:
        """The same person and connection; every call carries this request id, down to the last audit record."""
        view = copy.copy(self)
        view._transport = self._transport.with_request_id(request_id)
        return view

    @property
    def runs(self) -> Runs:
        return Runs(self._transport)

    @property
    def proposals(self) -> Proposals:
        return Proposals(self._transport)

    @property
    def tools(self) -> Tools:
        return Tools(self._transport)

    @property
    def documents(self) -> Documents:
        return Documents(self._transport)

    @property
    def audit(self) -> Audit:
        return Audit(self._transport)

    @property
    def directory(self) -> DirectoryAdmin:
        return DirectoryAdmin(self._transport)

    async def forget_conversation(self, conversation_id: str) -> None:
        await self._transport.delete(f"/api/conversations/{conversation_id}/memory")

    async def readiness(self) -> dict[str, bool]:
        """The gateway's own checks, by name; none of them when it does not answer at all."""
        try:
            return _checks((await self._transport.get("/readyz")).body)
        except ApiError as error:
            return _checks(error.details)


def _checks(body: object) -> dict[str, bool]:
    checks = body.get("checks") if isinstance(body, dict) else None
    return {str(name): bool(good) for name, good in checks.items()} if isinstance(checks, dict) else {}
