"""`assess-action`: approval asks how edited arguments stand, in the name of the original requester."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.contracts.digests import proposal_id_of
from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import AssessAction, PacketReply
from placet.contracts.policy import Channel, Influence
from placet.contracts.proposals import Origin
from placet.contracts.tools import Route
from placet.messaging.rpc import Call
from placet.toolkit import ToolContext
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.arguments import strip_identity
from services.tool_executor.domain.facts import Circumstances, RunLimits, actor_of
from services.tool_executor.domain.usage import RunUse
from services.tool_executor.errors import denial, tool_not_allowed
from services.tool_executor.handlers.assessment import Assessment, Assessor
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.handlers.packets import Packets


def channel_of(origin: Origin) -> Channel:
    return "chat" if origin.run_id else "http"


def influence_of(origin: Origin) -> Influence:
    """What the call rested on when it was made: an edit and the commit are judged by it, too."""
    return Influence(authors=origin.authors, untrusted_documents=origin.untrusted_documents)


@dataclass(frozen=True, slots=True)
class Assessments:
    callers: Callers
    registry: ToolRegistry
    assessor: Assessor
    packets: Packets
    limits: RunLimits

    async def on_assess(self, call: Call, command: AssessAction) -> PacketReply:
        """Raises what a fresh call with these arguments would: the proposal then stays as it is."""
        origin = command.origin
        if origin.tenant != call.tenant:
            raise PlacetError(ErrorCode.INVALID_REQUEST, "The origin's tenant is not the subject's.")
        spec = self.registry.get(command.tool)
        if spec is None:
            raise tool_not_allowed()
        person = await self.callers.person(origin.tenant, origin.requester)
        context = ToolContext(
            actor=actor_of(person),
            call_id=origin.call_id,
            request_id=origin.request_id,
            now=now(),
            run_id=origin.run_id,
        )
        # The call itself was counted when it was made; a person's edit of it uses up nothing more.
        around = Circumstances(
            route=Route(origin.route),
            channel=channel_of(origin),
            influence=influence_of(origin),
            budget=self.limits.after(RunUse()) if origin.run_id else None,
        )
        arguments = strip_identity(command.args).arguments
        assessment = await self.assessor.assess(spec, context, person, arguments, around)
        if assessment.decision.effect == "deny":
            raise denial(assessment.decision)
        if assessment.decision.effect == "allow":
            raise PlacetError(
                ErrorCode.CONFLICT, "With these arguments no approval is needed: reject, and let it be asked anew."
            )
        await self.assessor.check_rules(assessment, context)
        context = replace(context, idempotency_key=_key(assessment, origin))
        return PacketReply(packet=await self.packets.of(assessment, context, person, around))


def _key(assessment: Assessment, origin: Origin) -> str | None:
    """The key that the edited call will have; an undo's proposal has an id of another kind."""
    if origin.rollback_of:
        return None
    return assessment.key(origin.tenant, proposal_id_of(origin.tenant, origin.requester, origin.run_id, origin.call_id))
