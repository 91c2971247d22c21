"""What the gateway itself refuses, before any service is asked."""

from __future__ import annotations

from placet.contracts.errors import ErrorCode, PlacetError


def unauthenticated() -> PlacetError:
    return PlacetError(ErrorCode.UNAUTHENTICATED, "A valid bearer token is required.")


def too_large(limit: int) -> PlacetError:
    """`limit` in bytes."""
    return PlacetError(ErrorCode.PAYLOAD_TOO_LARGE, f"The body may have at most {limit} bytes.")


def bad_form(problem: str, *, field: str | None = None) -> PlacetError:
    details = {} if field is None else {"errors": [{"field": field, "problem": problem}]}
    return PlacetError(ErrorCode.INVALID_REQUEST, problem, **details)


def too_many_uploads() -> PlacetError:
    return PlacetError(ErrorCode.RATE_LIMITED, "Too many files are arriving at once; try again.")


def bad_idempotency_key() -> PlacetError:
    return PlacetError(ErrorCode.INVALID_REQUEST, "An Idempotency-Key has 1 to 255 printable ASCII characters.")


def idempotency_mismatch() -> PlacetError:
    message = "This Idempotency-Key was used with another body."
    return PlacetError(ErrorCode.IDEMPOTENCY_MISMATCH, message)


def still_in_progress() -> PlacetError:
    message = "A call with this Idempotency-Key is still being worked on; ask again in a moment."
    return PlacetError(ErrorCode.CONFLICT, message)


def changed_meanwhile() -> PlacetError:
    message = "The document has changed since the proposal; nothing was published."
    return PlacetError(ErrorCode.CONFLICT, message)
