"""Bodies are read here, counted while they arrive, and handed on whole: no parser sees more than the limit."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.contracts.errors import PlacetError
from services.gateway.errors import too_large
from services.gateway.handlers.exchange import exchange_of, guarded
from services.gateway.handlers.problems import answer_problem

MAX_BODY_BYTES = 262_144
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


class BodyLimitStep:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not guarded(scope):
            await self._app(scope, receive, send)
            return
        try:
            _check_announced(Headers(scope=scope).get("content-length"))
            body = await _read(receive) if scope["method"] in _WITH_BODY else b""
        except PlacetError as error:
            await answer_problem(error, scope, receive, send)
            return
        except ClientDisconnect:
            return
        exchange_of(scope).body = body
        await self._app(scope, _replay(body, receive), send)


def _check_announced(length: str | None) -> None:
    if length and length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)


async def _read(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
