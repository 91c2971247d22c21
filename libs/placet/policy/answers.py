"""From an engine's raw value to a typed answer. What cannot be understood is a denial."""

from __future__ import annotations

from typing import Any, TypeVar

import structlog
from pydantic import BaseModel, ValidationError

from placet.contracts.errors import ErrorCode
from placet.contracts.policy import BoundTools, Decision, Eligibility, KnowledgeScope
from placet.contracts.tools import Risk
from placet.policy.port import Answered, Evaluation, Failure, Unanswered

A = TypeVar("A", bound=BaseModel)

log = structlog.get_logger(__name__)


def to_decision(evaluation: Evaluation, risk: Risk) -> Decision:
    """`risk` is the tool's declared one; it is reported when policy names none."""
    answer = _parse(Decision, evaluation)
    if isinstance(answer, Decision):
        return answer
    return Decision(effect="deny", code=ErrorCode.POLICY_UNAVAILABLE, risk=risk, **_why(answer))


def to_eligibility(evaluation: Evaluation) -> Eligibility:
    """A policy that gave no answer is visible as such: hiding an outage behind a 404 would help nobody."""
    answer = _parse(Eligibility, evaluation)
    if isinstance(answer, Eligibility):
        return answer
    return Eligibility(allowed=False, visible=True, code=ErrorCode.POLICY_UNAVAILABLE, **_why(answer))


def to_bound_tools(evaluation: Evaluation) -> BoundTools:
    answer = _parse(BoundTools, evaluation)
    if isinstance(answer, BoundTools):
        return answer
    return BoundTools(tools=(), code=ErrorCode.POLICY_UNAVAILABLE, **_why(answer))


def to_knowledge_scope(evaluation: Evaluation) -> KnowledgeScope:
    answer = _parse(KnowledgeScope, evaluation)
    if isinstance(answer, KnowledgeScope):
        return answer
    return KnowledgeScope(visible=False, code=ErrorCode.POLICY_UNAVAILABLE, **_why(answer))


def _parse(model: type[A], evaluation: Evaluation) -> A | Unanswered:
    if isinstance(evaluation, Answered):
        if not isinstance(evaluation.value, dict):
            return _report(Unanswered(Failure.BAD_SHAPE, f"not an object: {model.__name__}", evaluation.revision))
        try:
            return model.model_validate({**evaluation.value, "policy_revision": evaluation.revision})
        except ValidationError as error:
            detail = f"{model.__name__}: " + "; ".join(_place(item) for item in error.errors(include_input=False))
            return _report(Unanswered(Failure.BAD_SHAPE, detail, evaluation.revision))
    return _report(evaluation)


def _place(error: Any) -> str:
    return f"{'.'.join(str(part) for part in error['loc']) or 'answer'}: {error['msg']}"


def _report(unanswered: Unanswered) -> Unanswered:
    log.warning("policy_unavailable", reason=unanswered.failure.value, detail=unanswered.detail)
    return unanswered


def _why(unanswered: Unanswered) -> dict[str, Any]:
    return {"reasons": (unanswered.failure.value,), "policy_revision": unanswered.revision}
