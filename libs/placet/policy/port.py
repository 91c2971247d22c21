"""The port: what the rest of the system asks of policy. `OpaPolicy` and `RegoPolicy` are its adapters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from placet.contracts.policy import (
    NO_REVISION,
    BoundTools,
    Channel,
    Decision,
    DecisionInput,
    Eligibility,
    KnowledgeScope,
    ProposalAction,
    ProposalFacts,
    Resource,
    Subject,
)
from placet.contracts.tools import Route

AUTHZ = "placet.authz.decision"
ROUTES = "placet.routes.bound"
APPROVAL = "placet.approval.decision"
KNOWLEDGE = "placet.knowledge.scope"
ADMIN = "placet.admin.decision"
ENTRY_POINTS = (AUTHZ, ROUTES, APPROVAL, KNOWLEDGE, ADMIN)


class Failure(StrEnum):
    """Why policy gave no usable answer. The value is the reason code of the denial that follows."""

    UNDEFINED = "policy_undefined"
    SLOW = "policy_slow"
    DOWN = "policy_down"
    FAILED = "policy_failed"
    BAD_SHAPE = "policy_bad_shape"
    BAD_INPUT = "policy_bad_input"


@dataclass(frozen=True, slots=True)
class Answered:
    """The engine's value, and the digest of the policy that it evaluated for just this value."""

    value: Any
    revision: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No value. `detail` is for the log, not for callers."""

    failure: Failure
    detail: str
    revision: str = NO_REVISION


Evaluation = Answered | Unanswered


@dataclass(frozen=True, slots=True)
class Reload:
    """What `refresh` found. `problem`: the files cannot be used, so `revision`, the one before, stays in force."""

    changed: bool
    revision: str
    problem: str | None = None


class PolicyDecisionPoint(Protocol):
    """Decides, and never raises for a decision: whatever goes wrong is a denial with code `policy_unavailable`."""

    @property
    def engine(self) -> str:
        """`opa` or `embedded`."""
        ...

    async def evaluate(self, entrypoint: str, document: dict[str, Any]) -> Evaluation:
        """The raw value of a rule, named like `placet.authz.decision`."""
        ...

    async def decide(self, request: DecisionInput) -> Decision: ...

    async def bound_tools(
        self, subject: Subject, route: Route, *, channel: Channel, agent: str | None = None, manifest: str | None = None
    ) -> BoundTools:
        """The tools that this subject may be shown on this route."""
        ...

    async def who_may_decide(self, decider: Subject, action: ProposalAction, proposal: ProposalFacts) -> Eligibility:
        """May `decider` do this to the proposal? Not visible: answer 404; visible but not allowed: 403."""
        ...

    async def knowledge_scope(self, subject: Subject) -> KnowledgeScope: ...

    async def admin(self, subject: Subject, duty: str, resource: Resource | None = None) -> Eligibility:
        """May `subject` do this duty (`directory.read`, `audit.read`, ...)? Default resource: the subject's tenant."""
        ...

    async def revision(self) -> str:
        """The digest of the policy in force, or `unknown`."""
        ...

    async def refresh(self) -> Reload:
        """Take up changed policy files, if the engine does not watch them by itself."""
        ...

    async def ready(self) -> bool: ...

    async def close(self) -> None: ...
