"""Bodies are read here, counted while they arrive, and handed on whole: no parser sees more than the limit.

An uploaded file never lies in memory: its form is taken apart as it comes and the file goes to a temporary file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.contracts.errors import ErrorCode, PlacetError
from services.gateway.errors import too_large, too_many_uploads
from services.gateway.handlers.edge.form import FORM_EXTRA_BYTES, FormReader, boundary_of, fingerprinted
from services.gateway.handlers.exchange import exchange_of, guarded, ports_of
from services.gateway.handlers.problems import answer_problem

MAX_BODY_BYTES = 262_144
UPLOAD_PATH = "/api/documents"
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
# Who is refused while still sending would lose the answer with the connection: what comes is let go for a moment.
_LINGER_S = 2.0


class BodyLimitStep:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not guarded(scope):
            await self._app(scope, receive, send)
            return
        boundary = _upload_boundary(scope)
        try:
            if boundary is not None:
                await self._with_file(boundary, scope, receive, send)
                return
            _check_announced(scope, MAX_BODY_BYTES)
            body = await _read(receive) if scope["method"] in _WITH_BODY else b""
        except PlacetError as error:
            await answer_problem(error, scope, receive, _lingering(receive, send))
            return
        except ClientDisconnect:
            return
        exchange_of(scope).body = body
        await self._app(scope, _replay(body, receive), send)

    async def _with_file(self, boundary: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        space = ports_of(scope).uploads
        _check_announced(scope, space.max_bytes + FORM_EXTRA_BYTES)
        if space.places.locked():
            raise too_many_uploads()
        async with space.places:
            form = FormReader(boundary, space.max_bytes)
            try:
                # Whoever is silent, or drips, holds a place that others wait for.
                async with _patience(space.whole_s):
                    async for chunk in _chunks(receive, space.max_bytes + FORM_EXTRA_BYTES, silence_s=space.silence_s):
                        form.feed(chunk)
                exchange = exchange_of(scope)
                exchange.file = form.finish()
                exchange.body = fingerprinted(exchange.file)
                await self._app(scope, _replay(b"", receive), send)
            finally:
                form.close()


def _upload_boundary(scope: Scope) -> bytes | None:
    """The boundary of the form, when this call is an upload."""
    if scope["method"] != "POST" or scope["path"] != UPLOAD_PATH:
        return None
    return boundary_of(Headers(scope=scope).get("content-type", ""))


def _check_announced(scope: Scope, limit: int) -> None:
    length = Headers(scope=scope).get("content-length")
    if length and length.isdigit() and int(length) > limit:
        raise too_large(limit)


async def _read(receive: Receive) -> bytes:
    return b"".join([chunk async for chunk in _chunks(receive, MAX_BODY_BYTES)])


async def _chunks(receive: Receive, limit: int, *, silence_s: float | None = None) -> AsyncIterator[bytes]:
    """Raises `PlacetError` (payload_too_large, invalid_request), `ClientDisconnect`."""
    size, more = 0, True
    while more:
        async with _patience(silence_s):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        yield chunk
        more = message.get("more_body", False)


@asynccontextmanager
async def _patience(seconds: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise PlacetError(ErrorCode.INVALID_REQUEST, "The body did not arrive.") from error


def _lingering(receive: Receive, send: Send) -> Send:
    """Answers in full, and ends the exchange only when the sender has had time to read it."""

    async def answer(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await send(message)
            return
        await send({**message, "more_body": True})
        try:
            async with asyncio.timeout(_LINGER_S):
                while (arrived := await receive())["type"] == "http.request" and arrived.get("more_body", False):
                    pass
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return answer


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
