"""`application/problem+json` (RFC 9457) as typed exceptions. `code` is the stable part; tell cases apart by it."""

from __future__ import annotations

import json
from typing import Any

from placet.contracts.errors import ErrorCode


class ApiError(Exception):
    """The server refused, or could not be reached (`status` 0). `details` holds the problem's other members."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(f"{code} ({status}): {message}" if status else f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details


class UnauthenticatedError(ApiError):
    """401: the token is missing, expired or forged."""


class NotAllowedError(ApiError):
    """403: you may see it, but it is not yours to do."""


class NotFoundError(ApiError):
    """404: absent, or not visible to you; nobody can tell which."""


class ConflictError(ApiError):
    """409: `already_decided`, `expired`, `conflict`, `idempotency_mismatch` or `outcome_unknown`."""


class InvalidError(ApiError):
    """413 or 422: `invalid_request`, `invalid_arguments`, `challenge_failed` or `payload_too_large`."""


class LimitReachedError(ApiError):
    """429: `limit_reached` or `rate_limited`."""


class UnavailableError(ApiError):
    """5xx, or no connection: worth another attempt later."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: UnauthenticatedError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    422: InvalidError,
    429: LimitReachedError,
}


def from_response(status: int, body: bytes) -> ApiError:
    """The exception for a refusal. A body that is no problem document (a proxy's page) is quoted, shortened."""
    kind = _BY_STATUS.get(status, UnavailableError if status >= 500 else ApiError)
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return kind(status, ErrorCode.INTERNAL.value, body[:200].decode("utf-8", "replace"))
    code = str(problem.pop("code", ErrorCode.INTERNAL.value))
    message = str(problem.pop("detail", None) or problem.get("title") or "")
    problem.pop("status", None)
    return kind(status, code, message, **{str(name): value for name, value in problem.items()})


def unreachable(url: str, error: Exception) -> UnavailableError:
    """No answer at all."""
    reason = str(error) or type(error).__name__
    return UnavailableError(0, ErrorCode.DEPENDENCY_UNAVAILABLE.value, f"no answer from {url}: {reason}", url=url)
