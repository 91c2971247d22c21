"""The packet of an action with its rollback plan, rehearsed: a dry run of the undo before anybody is asked (B9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.contracts.digests import derived_id
from placet.contracts.directory import Person
from placet.contracts.errors import PlacetError
from placet.contracts.proposals import ActionPacket, Rollback
from placet.contracts.tools import Route
from placet.observability import logs
from placet.toolkit import RollbackPlan, ToolContext
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.facts import Circumstances
from services.tool_executor.errors import denial, tool_not_allowed
from services.tool_executor.handlers.assessment import Assessment, Assessor, within

log = logs.get(__name__)


def undoing(around: Circumstances) -> Circumstances:
    """How the undo of a call is entered: by the program in a person's name, never by the model that asked for it."""
    route = around.route if around.channel == "http" else Route.HTTP
    return Circumstances(route=route, channel="http", influence=around.influence)


@dataclass(frozen=True, slots=True)
class Packets:
    registry: ToolRegistry
    assessor: Assessor

    async def of(
        self, assessment: Assessment, context: ToolContext, person: Person, around: Circumstances
    ) -> ActionPacket:
        """A rollback that could not be rehearsed is said so in the packet; it keeps nothing from being proposed."""
        preview = await self.assessor.preview(assessment, context)
        rollback = await self._rehearsed(preview.rollback, context, person, around)
        return assessment.packet(context.tenant, preview, rollback)

    async def _rehearsed(
        self, plan: RollbackPlan | None, context: ToolContext, person: Person, around: Circumstances
    ) -> Rollback:
        if plan is None:
            return Rollback(note="There is no rollback plan for this action.")
        try:
            await self._dry_run(plan, context, person, undoing(around))
        except PlacetError as error:
            return Rollback(tool=plan.tool, arguments=plan.arguments, note=f"{error.code.value}: {error.message}")
        except Exception:
            log.exception("rehearsal failed", tool=plan.tool)
            return Rollback(tool=plan.tool, arguments=plan.arguments, note="The dry run failed unexpectedly.")
        return Rollback(tool=plan.tool, arguments=plan.arguments, rehearsed=True)

    async def _dry_run(self, plan: RollbackPlan, context: ToolContext, person: Person, around: Circumstances) -> None:
        """What the undo would meet now: its schema, its resource, policy, its own rehearsal, and a tool that answers.

        Raises `PlacetError` for whatever stands against it. Nothing is executed: the lookup is for a key never used.
        """
        spec = self.registry.get(plan.tool)
        if spec is None:
            raise tool_not_allowed()
        key = derived_id("rehearsal", context.tenant, context.call_id)
        dry = replace(context, idempotency_key=key, resource_version=None)
        assessment = await self.assessor.assess(spec, dry, person, plan.arguments, around)
        if assessment.decision.effect == "deny":
            raise denial(assessment.decision)
        if spec.hooks.rehearse:
            await within(spec, spec.hooks.rehearse(dry, assessment.args, assessment.resource))
        if spec.hooks.lookup:
            await within(spec, spec.hooks.lookup(dry, assessment.args))
