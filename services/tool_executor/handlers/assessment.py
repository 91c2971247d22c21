"""One assessment for all occasions: a call now, an edit of a proposal, the commit of an approved one.

Parse the arguments, read the resource as it is at this moment, ask policy with the directory's facts of this moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from placet.contracts.digests import digest, idempotency_key
from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.policy import Decision, DecisionInput
from placet.contracts.proposals import ActionPacket, Rollback
from placet.observability import metrics
from placet.policy.port import PolicyDecisionPoint
from placet.toolkit import Preview, ResourceView, ToolContext, ToolSpec
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain import arguments as untrusted
from services.tool_executor.domain.facts import Circumstances, decision_input
from services.tool_executor.domain.packet import build_packet

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assessment:
    """A call as it stands now. `arguments` are the caller's own JSON, `args` the validated model of them."""

    spec: ToolSpec
    arguments: dict[str, Any]
    args: BaseModel
    resource: ResourceView | None
    decision: Decision
    decision_input: DecisionInput

    def packet(self, tenant: str, preview: Preview, rollback: Rollback) -> ActionPacket:
        return build_packet(tenant, self.spec, self.arguments, self.resource, self.decision, preview, rollback)

    def key(self, tenant: str, occasion: str) -> str:
        """The system's key for this effect on this occasion."""
        return idempotency_key(
            tenant=tenant,
            tool=self.spec.name,
            target=self.resource.id if self.resource else "",
            args_digest=digest(self.arguments),
            occasion=occasion,
        )


async def within(spec: ToolSpec, work: Awaitable[T]) -> T:
    """Run a hook or handler under the tool's timeout. Raises `PlacetError(timeout)`."""
    try:
        async with asyncio.timeout(spec.timeout_s):
            return await work
    except TimeoutError as error:
        raise PlacetError(ErrorCode.TIMEOUT, f"{spec.name} took longer than {spec.timeout_s:g} s.") from error


@dataclass(frozen=True, slots=True)
class Assessor:
    registry: ToolRegistry
    policy: PolicyDecisionPoint

    async def assess(
        self, spec: ToolSpec, context: ToolContext, person: Person, arguments: dict[str, Any], around: Circumstances
    ) -> Assessment:
        """Raises `PlacetError`: `invalid_arguments`, or what reading the resource ends with (`not_found`, ...).

        A denial is not raised: it is the assessment's decision, for the caller to record and refuse.
        """
        args = untrusted.parse(spec, arguments)
        resource = None
        if spec.hooks.resource:
            resource = await within(spec, spec.hooks.resource(context, args))
        domain = self.registry.pack_of(spec.name)
        request = decision_input(spec, domain, person, arguments, resource, around)
        decision = await self.policy.decide(request)
        metrics.POLICY_DECISIONS.labels(decision.effect, decision.code or "").inc()
        return Assessment(spec, arguments, args, resource, decision, request)

    async def check_rules(self, assessment: Assessment, context: ToolContext) -> None:
        """The tool's business rules; raises `PlacetError` for a broken one."""
        spec = assessment.spec
        if spec.hooks.validate:
            await within(spec, spec.hooks.validate(context, assessment.args, assessment.resource))

    async def preview(self, assessment: Assessment, context: ToolContext) -> Preview:
        spec = assessment.spec
        if spec.hooks.preview is None:
            return Preview(summary=spec.title)
        return await within(spec, spec.hooks.preview(context, assessment.args, assessment.resource))
