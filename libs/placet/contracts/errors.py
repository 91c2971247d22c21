"""The closed set of error codes and the one exception that carries them between services."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError


class NextHop(StrEnum):
    """Where a run goes after a tool call ended with a code."""

    SAFE_REFUSAL = "safe_refusal"
    SAME_NODE = "same_node"
    ASK_BACK = "ask_back"
    TELL_USER = "tell_user"
    DEGRADE = "degrade"
    FINISH = "finish"
    PARK = "park"


class ErrorCode(StrEnum):
    """Stable codes. The first block is what a tool call may end with; the second belongs to HTTP and decisions."""

    TOOL_NOT_ALLOWED = "tool_not_allowed"
    PERMISSION_DENIED = "permission_denied"
    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    DEPENDENCY_UNAVAILABLE = "dependency_unavailable"
    POLICY_UNAVAILABLE = "policy_unavailable"
    LIMIT_REACHED = "limit_reached"
    OUTCOME_UNKNOWN = "outcome_unknown"

    UNAUTHENTICATED = "unauthenticated"
    INVALID_REQUEST = "invalid_request"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    CHALLENGE_FAILED = "challenge_failed"
    ALREADY_DECIDED = "already_decided"
    EXPIRED = "expired"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class CodeRule:
    """How a code is answered: HTTP status, whether the same call may be repeated, and the run's next hop."""

    status: int
    retryable: bool
    next_hop: NextHop


RULES: dict[ErrorCode, CodeRule] = {
    ErrorCode.TOOL_NOT_ALLOWED: CodeRule(403, False, NextHop.SAFE_REFUSAL),
    ErrorCode.PERMISSION_DENIED: CodeRule(403, False, NextHop.SAFE_REFUSAL),
    ErrorCode.INVALID_ARGUMENTS: CodeRule(422, False, NextHop.SAME_NODE),
    ErrorCode.NOT_FOUND: CodeRule(404, False, NextHop.ASK_BACK),
    ErrorCode.CONFLICT: CodeRule(409, False, NextHop.TELL_USER),
    ErrorCode.TIMEOUT: CodeRule(504, True, NextHop.DEGRADE),
    ErrorCode.RATE_LIMITED: CodeRule(429, True, NextHop.DEGRADE),
    ErrorCode.DEPENDENCY_UNAVAILABLE: CodeRule(503, True, NextHop.DEGRADE),
    ErrorCode.POLICY_UNAVAILABLE: CodeRule(503, True, NextHop.DEGRADE),
    ErrorCode.LIMIT_REACHED: CodeRule(429, False, NextHop.FINISH),
    ErrorCode.OUTCOME_UNKNOWN: CodeRule(409, False, NextHop.PARK),
    ErrorCode.UNAUTHENTICATED: CodeRule(401, False, NextHop.SAFE_REFUSAL),
    ErrorCode.INVALID_REQUEST: CodeRule(422, False, NextHop.TELL_USER),
    ErrorCode.PAYLOAD_TOO_LARGE: CodeRule(413, False, NextHop.TELL_USER),
    ErrorCode.CHALLENGE_FAILED: CodeRule(422, False, NextHop.TELL_USER),
    ErrorCode.ALREADY_DECIDED: CodeRule(409, False, NextHop.TELL_USER),
    ErrorCode.EXPIRED: CodeRule(409, False, NextHop.TELL_USER),
    ErrorCode.IDEMPOTENCY_MISMATCH: CodeRule(409, False, NextHop.TELL_USER),
    ErrorCode.INTERNAL: CodeRule(500, False, NextHop.DEGRADE),
}


class PlacetError(Exception):
    """An outcome with a stable code, raised where the caller cannot go on and turned into a typed reply at the edge.

    `message` is safe to show to the caller. `details` holds JSON values (field errors, limits); nothing secret.
    """

    def __init__(self, code: ErrorCode, message: str, **details: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = details

    @property
    def rule(self) -> CodeRule:
        return RULES[self.code]

    @property
    def retryable(self) -> bool:
        return self.rule.retryable


NOT_FOUND_MESSAGE = "No such resource, or it is not visible to you."


def not_found() -> PlacetError:
    """The one answer for absent and for forbidden (I3): same code, same text, no details."""
    return PlacetError(ErrorCode.NOT_FOUND, NOT_FOUND_MESSAGE)


def validation_problems(error: ValidationError, limit: int = 20) -> list[dict[str, str]]:
    """Field errors without the offending input: it may be secret, or a megabyte."""
    return [
        {"field": ".".join(str(part) for part in item["loc"]), "problem": item["msg"]}
        for item in error.errors(include_url=False, include_context=False, include_input=False)[:limit]
    ]
