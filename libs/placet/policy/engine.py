"""The typed questions, asked of any engine that can evaluate a rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import orjson
from pydantic_core import PydanticSerializationError

from placet.contracts.policy import (
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
from placet.policy import answers
from placet.policy.port import ADMIN, APPROVAL, AUTHZ, KNOWLEDGE, ROUTES, Evaluation, Failure, Reload, Unanswered


class PolicyEngine(ABC):
    """Implements `PolicyDecisionPoint` on top of `_evaluate`, which adapters provide and which must not raise."""

    engine: str

    @abstractmethod
    async def _evaluate(self, entrypoint: str, encoded: bytes) -> Evaluation:
        """`encoded` is the input document as JSON: the same bytes whichever engine reads them."""

    @abstractmethod
    async def revision(self) -> str: ...

    @abstractmethod
    async def refresh(self) -> Reload: ...

    @abstractmethod
    async def ready(self) -> bool: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def evaluate(self, entrypoint: str, document: dict[str, Any]) -> Evaluation:
        try:
            encoded = orjson.dumps(document)
        except TypeError as error:
            # Integers beyond 64 bits, lone surrogates, no JSON at all: engines would each read them differently.
            return Unanswered(Failure.BAD_INPUT, str(error))
        return await self._evaluate(entrypoint, encoded)

    async def decide(self, request: DecisionInput) -> Decision:
        risk = request.action.properties.risk
        try:
            document = request.model_dump(mode="json")
        except PydanticSerializationError as error:
            return answers.to_decision(Unanswered(Failure.BAD_INPUT, str(error)), risk)
        return answers.to_decision(await self.evaluate(AUTHZ, document), risk)

    async def bound_tools(
        self, subject: Subject, route: Route, *, channel: Channel, agent: str | None = None, manifest: str | None = None
    ) -> BoundTools:
        context = {"route": route.value, "channel": channel, "agent": agent, "manifest": manifest}
        return answers.to_bound_tools(
            await self.evaluate(ROUTES, {"subject": subject.model_dump(mode="json"), "context": context})
        )

    async def who_may_decide(self, decider: Subject, action: ProposalAction, proposal: ProposalFacts) -> Eligibility:
        facts = proposal.model_dump(mode="json", exclude={"id"})
        resource = Resource(type="proposal", id=proposal.id, properties=facts)
        return answers.to_eligibility(await self.evaluate(APPROVAL, _question(decider, action, resource)))

    async def knowledge_scope(self, subject: Subject) -> KnowledgeScope:
        document = {"subject": subject.model_dump(mode="json"), "action": {"name": "knowledge.read"}}
        return answers.to_knowledge_scope(await self.evaluate(KNOWLEDGE, document))

    async def admin(self, subject: Subject, duty: str, resource: Resource | None = None) -> Eligibility:
        tenant = subject.properties.tenant
        target = resource or Resource(type="tenant", id=tenant or "none", properties={"tenant": tenant})
        return answers.to_eligibility(await self.evaluate(ADMIN, _question(subject, duty, target)))


def _question(subject: Subject, action: str, resource: Resource) -> dict[str, Any]:
    return {
        "subject": subject.model_dump(mode="json"),
        "action": {"name": action},
        "resource": resource.model_dump(mode="json"),
    }
