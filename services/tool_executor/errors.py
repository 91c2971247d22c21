"""What the executor refuses with; always the same few texts, so that a refusal tells nothing about what it protects."""

from __future__ import annotations

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.policy import Decision

_DENIALS: dict[ErrorCode, str] = {
    ErrorCode.TOOL_NOT_ALLOWED: "This tool is not available here.",
    ErrorCode.PERMISSION_DENIED: "You may not do this.",
    ErrorCode.POLICY_UNAVAILABLE: "Policy gave no decision; nothing was done.",
    ErrorCode.LIMIT_REACHED: "A limit of this session is reached.",
}


def tool_not_allowed() -> PlacetError:
    return PlacetError(ErrorCode.TOOL_NOT_ALLOWED, _DENIALS[ErrorCode.TOOL_NOT_ALLOWED])


def limit_reached() -> PlacetError:
    return PlacetError(ErrorCode.LIMIT_REACHED, _DENIALS[ErrorCode.LIMIT_REACHED])


def denial(decision: Decision) -> PlacetError:
    """The error for a denied call. Reason codes stay inside: they go to the audit trail, not to the caller."""
    code = decision.code or ErrorCode.PERMISSION_DENIED
    return PlacetError(code, _DENIALS[code])
