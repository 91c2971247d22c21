"""The question that the tests of failures ask, and what must be said when there is no answer."""

from __future__ import annotations

from typing import Any

from placet.contracts.errors import ErrorCode
from placet.contracts.policy import (
    Action,
    ActionProperties,
    BudgetFacts,
    Context,
    Decision,
    DecisionInput,
    Obligations,
    ProposalFacts,
    Subject,
    SubjectProperties,
)
from placet.contracts.tools import Risk, Route, Sensitivity
from placet.policy.port import Failure, PolicyDecisionPoint

ALICE = Subject(id="alice", properties=SubjectProperties(tenant="acme", active=True, roles=("employee",)))
BUDGET = BudgetFacts.model_validate({"tool_calls": {"used": 0, "limit": 12}, "spend": {"used": 0, "limit": 1}})
PROPOSAL = ProposalFacts(
    id="p-1",
    tenant="acme",
    requester="bob",
    tool="refund_payment",
    risk=Risk.CRITICAL_FUNDS,
    obligations=Obligations(approver_roles=("employee",)),
)


def search(args: dict[str, Any] | None = None) -> DecisionInput:
    return DecisionInput(
        subject=ALICE,
        action=Action(
            name="search_knowledge", properties=ActionProperties(sensitivity=Sensitivity.READ, risk=Risk.LOW)
        ),
        context=Context(
            args=args or {},
            route=Route.FIXED_RAG,
            channel="chat",
            agent="assistant",
            manifest="assistant",
            budget=BUDGET,
        ),
    )


def assert_denied(decision: Decision, failure: Failure) -> None:
    assert decision.effect == "deny"
    assert decision.code is ErrorCode.POLICY_UNAVAILABLE
    assert decision.reasons == (failure.value,)


async def assert_nothing_is_granted(policy: PolicyDecisionPoint, failure: Failure) -> None:
    """Every question, not only the first."""
    assert_denied(await policy.decide(search()), failure)
    bound = await policy.bound_tools(ALICE, Route.HTTP, channel="http")
    eligibility = await policy.who_may_decide(ALICE, "approve", PROPOSAL)
    scope = await policy.knowledge_scope(ALICE)
    duty = await policy.admin(ALICE, "audit.read")
    assert (bound.tools, bound.code) == ((), ErrorCode.POLICY_UNAVAILABLE)
    assert (eligibility.allowed, eligibility.code) == (False, ErrorCode.POLICY_UNAVAILABLE)
    assert (scope.visible, scope.principals, scope.code) == (False, None, ErrorCode.POLICY_UNAVAILABLE)
    assert (duty.allowed, duty.code) == (False, ErrorCode.POLICY_UNAVAILABLE)
    for answer in (bound, eligibility, scope, duty):
        assert answer.reasons == (failure.value,)
    assert not await policy.ready()
