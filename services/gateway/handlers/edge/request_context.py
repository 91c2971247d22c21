"""The outermost step: request id in and out, one log line, and an answer even when something breaks inside."""

from __future__ import annotations

import re
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.contracts.errors import ErrorCode, PlacetError
from placet.observability import logs, metrics
from placet.observability.context import RequestContext, bound, new_traceparent, request_id_or_new
from services.gateway.handlers.exchange import begin
from services.gateway.handlers.problems import answer_problem

log = logs.get(__name__)

_TRACEPARENT = re.compile(r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class RequestContextStep:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = request_id_or_new(headers.get("x-request-id"))
        begin(scope, request_id)
        context = RequestContext(request_id=request_id, traceparent=_traceparent(headers.get("traceparent")))
        with bound(context):
            await _Answering(scope, send, request_id).run(self._app, receive)


class _Answering:
    """Follows one answer on its way out."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._scope = scope
        self._send = send
        self._request_id = request_id
        self._began = time.perf_counter()
        self._started = False

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        try:
            await app(self._scope, receive, self.send)
        except Exception:
            log.exception("request failed", method=self._scope["method"], path=self._scope["path"])
            if self._started:
                # Half an answer cannot be taken back: the server closes the connection, and the client sees it.
                raise
            await answer_problem(PlacetError(ErrorCode.INTERNAL, ""), self._scope, receive, self.send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self._request_id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            self._note(int(message["status"]))
        await self._send(message)

    def _note(self, status: int) -> None:
        seconds = time.perf_counter() - self._began
        route = getattr(self._scope.get("route"), "path", "none")
        metrics.HTTP_SECONDS.labels(self._scope["method"], route, str(status)).observe(seconds)
        log.info(
            "request",
            method=self._scope["method"],
            path=self._scope["path"],
            status=status,
            ms=round(seconds * 1000, 2),
        )


def _traceparent(offered: str | None) -> str:
    return offered if offered and _TRACEPARENT.match(offered) else new_traceparent()
