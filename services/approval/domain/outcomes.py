"""From the ledger's events to the end of a proposal."""

from __future__ import annotations

from typing import Any

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import FinishReason
from services.approval.domain.commands import Conclude

DENIED = {ErrorCode.PERMISSION_DENIED.value, ErrorCode.TOOL_NOT_ALLOWED.value, ErrorCode.LIMIT_REACHED.value}


def conclusion(event: Event) -> Conclude | None:
    """How a proposal ends after this effect event; None for an event that ends nothing."""
    if isinstance(event, ev.Verified):
        return Conclude(FinishReason.SUCCESS, {"finish_reason": "success", "result": event.result})
    if isinstance(event, ev.VerificationFailed):
        outcome: dict[str, Any] = {
            "finish_reason": "verification_failed",
            "result": event.result,
            "observed": event.observed,
            "rollback": event.rollback,
        }
        return Conclude(FinishReason.VERIFICATION_FAILED, outcome)
    if isinstance(event, ev.Unknown):
        return Conclude(FinishReason.UNKNOWN, {"finish_reason": "unknown", "reason": event.reason})
    return _failure(event) if isinstance(event, ev.Failed) else None


def _failure(event: ev.Failed) -> Conclude:
    if event.code == ErrorCode.CONFLICT.value:
        reason = FinishReason.SUPERSEDED
    elif event.code in DENIED:
        reason = FinishReason.DENIED
    else:
        reason = FinishReason.FAILED
    outcome = {
        "finish_reason": reason.value,
        "code": event.code,
        "message": event.message,
        "diff": event.details.get("diff", {}),
    }
    return Conclude(reason, outcome)
