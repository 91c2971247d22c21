"""The input of a decision: every fact policy needs, so that the recorded input replays to the same decision (L1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from placet.contracts.directory import Person
from placet.contracts.policy import (
    Action,
    ActionProperties,
    ApproverFacts,
    BudgetFacts,
    Channel,
    Context,
    DecisionInput,
    Influence,
    Meter,
    Resource,
    Stage,
    Subject,
)
from placet.contracts.proposals import ResourceRef
from placet.contracts.tools import Route
from placet.toolkit import Actor, ResourceView, ToolSpec
from services.tool_executor.domain.usage import RunUse

AGENT = "assistant"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run may use: tool calls, and money in the policy's house currency."""

    tool_calls: int
    spend: float

    def after(self, use: RunUse) -> BudgetFacts:
        """The budget of a run that has used so much."""
        return BudgetFacts(
            tool_calls=Meter(used=use.calls, limit=self.tool_calls), spend=Meter(used=use.spent, limit=self.spend)
        )


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where a call comes from. `channel` is the grant's: `chat` for a run, `http` for a person's own call."""

    route: Route
    channel: Channel
    stage: Stage = "propose"
    budget: BudgetFacts | None = None
    influence: Influence = field(default_factory=Influence)
    approvers: tuple[Person, ...] = ()


def actor_of(person: Person) -> Actor:
    return Actor(
        tenant=person.tenant,
        id=person.id,
        active=person.active,
        roles=frozenset(person.roles),
        teams=frozenset(person.teams),
        clearance=person.clearance,
    )


def decision_input(
    spec: ToolSpec,
    domain: str,
    person: Person,
    arguments: dict[str, Any],
    resource: ResourceView | None,
    around: Circumstances,
) -> DecisionInput:
    agent = AGENT if around.channel == "chat" else None
    return DecisionInput(
        subject=Subject.of(person),
        action=Action(
            name=spec.name,
            properties=ActionProperties(
                sensitivity=spec.sensitivity, effect=spec.effect, risk=spec.risk, stage=around.stage, domain=domain
            ),
        ),
        resource=_resource(resource),
        context=Context(
            args=arguments,
            route=around.route,
            channel=around.channel,
            agent=agent,
            manifest=agent,
            budget=around.budget,
            influence=around.influence,
            approvals=tuple(ApproverFacts.of(approver) for approver in around.approvers),
        ),
    )


def _resource(view: ResourceView | None) -> Resource:
    if view is None:
        return Resource.none()
    properties = {**view.facts, "tenant": view.tenant, "version": view.version}
    return Resource(type=view.type, id=view.id, properties=properties)


def resource_ref(view: ResourceView | None) -> ResourceRef | None:
    return ResourceRef(type=view.type, id=view.id, version=view.version) if view else None
