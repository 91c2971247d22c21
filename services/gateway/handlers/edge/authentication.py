"""Who calls. Nothing below `/api/` is reached, or even found missing, without a valid token."""

from __future__ import annotations

from dataclasses import replace

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.contracts import subjects
from placet.contracts.errors import PlacetError
from placet.identity.tokens import Principal
from placet.observability import logs, metrics
from placet.observability.context import bound, current
from services.gateway.errors import unauthenticated
from services.gateway.handlers.exchange import exchange_of, guarded, ports_of
from services.gateway.handlers.problems import answer_problem

log = logs.get(__name__)

# A subject goes into every grant, and a grant has a size limit.
_MAX_SUBJECT_CHARS = 200


class AuthenticationStep:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not guarded(scope):
            await self._app(scope, receive, send)
            return
        try:
            principal = await _principal(scope)
        except PlacetError as error:
            metrics.SECURITY_EVENTS.labels("unauthenticated").inc()
            log.info("no valid token", path=scope["path"])
            await answer_problem(error, scope, receive, send)
            return
        exchange_of(scope).principal = principal
        with bound(replace(current(), tenant=principal.tenant, actor=principal.subject)):
            await self._app(scope, receive, send)


async def _principal(scope: Scope) -> Principal:
    values = Headers(scope=scope).getlist("authorization")
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthenticated()
    principal = await ports_of(scope).tokens.verify(token.strip())
    if len(principal.subject) > _MAX_SUBJECT_CHARS or not principal.subject.isprintable():
        raise unauthenticated()
    try:
        subjects.token(principal.tenant)
    except subjects.BadSubjectError as error:
        raise unauthenticated() from error
    return principal
