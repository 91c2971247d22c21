"""Errors as RFC 9457 problem documents.

The request id is in the `X-Request-ID` header and never in a body: the body for what is absent and for what one may
not see is the same, byte for byte (I3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from placet.contracts.errors import NOT_FOUND_MESSAGE, RULES, ErrorCode, PlacetError

MEDIA_TYPE = "application/problem+json"
_MEMBERS = frozenset({"type", "title", "status", "detail", "code"})
# These say nothing but their code, whoever raised them and with whatever details.
_SILENT: dict[ErrorCode, str] = {
    ErrorCode.NOT_FOUND: NOT_FOUND_MESSAGE,
    ErrorCode.UNAUTHENTICATED: "A valid bearer token is required.",
    ErrorCode.INTERNAL: "Something went wrong inside.",
}


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def problem(error: PlacetError, *, status: int | None = None) -> Problem:
    """The document of an error. `status` replaces the code's own (405 has no code of its own)."""
    rule = RULES[error.code]
    number = status or rule.status
    silent = error.code in _SILENT
    document: dict[str, Any] = {
        "type": f"urn:placet:problem:{error.code.value}",
        "title": HTTPStatus(number).phrase,
        "status": number,
        "detail": _SILENT.get(error.code, error.message),
        "code": error.code.value,
    }
    if not silent:
        document |= {name: value for name, value in error.details.items() if name not in _MEMBERS}
    headers: dict[str, str] = {}
    if number == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if rule.retryable:
        headers["Retry-After"] = "1"
    return Problem(number, orjson.dumps(document, default=str), headers)


def of_status(status: int) -> Problem:
    """The document of an error that the HTTP layer found itself (no such route, method not allowed)."""
    if status == HTTPStatus.NOT_FOUND:
        return problem(PlacetError(ErrorCode.NOT_FOUND, NOT_FOUND_MESSAGE))
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return problem(PlacetError(ErrorCode.PAYLOAD_TOO_LARGE, "The body is too large."))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem(PlacetError(ErrorCode.INTERNAL, ""), status=status)
    return problem(PlacetError(ErrorCode.INVALID_REQUEST, f"{HTTPStatus(status).phrase}."), status=status)
