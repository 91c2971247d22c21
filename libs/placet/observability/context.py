"""The request context: one request id and trace, carried through every hop and every log line."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_REQUEST_ID = re.compile(r"[A-Za-z0-9._\-]{1,128}")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """`request_id` is the correlation id of all messages; `traceparent` follows W3C Trace Context."""

    request_id: str
    tenant: str = ""
    actor: str | None = None
    traceparent: str | None = None
    causation_id: str | None = None


_current: ContextVar[RequestContext | None] = ContextVar("placet_request", default=None)


def new_id(prefix: str) -> str:
    """The one id generator: `<prefix>-<26 hex characters>`, unguessable (104 bits) and safe as a subject token."""
    return f"{prefix}-{secrets.token_hex(13)}"


def request_id_or_new(offered: str | None) -> str:
    """The caller's request id if it is harmless, else a new one."""
    return offered if offered and _REQUEST_ID.fullmatch(offered) else new_id("req")


def new_traceparent() -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def current() -> RequestContext:
    """The context of the work in hand; a fresh one outside any request (timers, start-up)."""
    return _current.get() or RequestContext(request_id=new_id("req"))


@contextmanager
def bound(context: RequestContext) -> Iterator[RequestContext]:
    """Make `context` the current one, in logs too (`logs` reads it for each line), until the block ends."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)


def log_fields() -> dict[str, str | None]:
    """What every log line inside a request says of it; nothing outside any request."""
    context = _current.get()
    if context is None:
        return {}
    return {"request_id": context.request_id, "tenant": context.tenant, "actor": context.actor}
