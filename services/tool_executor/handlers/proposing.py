"""Calls that wait for people: proposed once, and found again by who asks twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.contracts.approvals import ProposeAction
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.events import Proposed
from placet.contracts.execution import DecisionNote, ToolReply
from placet.contracts.proposals import FinishReason, ProposalStatus
from services.tool_executor.domain.masking import masked
from services.tool_executor.handlers.assessment import Assessment
from services.tool_executor.handlers.governed import Governed
from services.tool_executor.handlers.packets import Packets
from services.tool_executor.handlers.records import CallRecords
from services.tool_executor.handlers.replies import card, reply
from services.tool_executor.ports import Approvals, Proposals

# How a call may end that was in order when it was first made.
_MOVED = (ErrorCode.INVALID_ARGUMENTS, ErrorCode.CONFLICT, ErrorCode.NOT_FOUND, ErrorCode.LIMIT_REACHED)


@dataclass(frozen=True, slots=True)
class Proposing:
    approvals: Approvals
    proposals: Proposals
    packets: Packets
    records: CallRecords

    async def propose(self, governed: Governed, assessment: Assessment) -> ToolReply:
        """Put the call before people. The proposal's id comes from the call: asking twice is one proposal.

        Where the very same is open already, the answer is that proposal, under its own id and key.
        """
        if governed.repeated:
            first = await self.proposals.find(governed.tenant, governed.proposal_id)
            answer = await self._repeat(governed, first) if first else None
            if answer:
                return answer
            if first:  # it ended without a result: this is asking anew
                governed = replace(governed, first_call=governed.command.call_id)
        key = assessment.key(governed.tenant, governed.proposal_id)
        context = replace(governed.context, idempotency_key=key)
        packet = await self.packets.of(assessment, context, governed.caller.person, governed.around)
        command = ProposeAction(
            proposal_id=governed.proposal_id, idempotency_key=key, origin=governed.origin, packet=packet
        )
        try:
            view = await self.approvals.propose(command)
        except PlacetError as error:
            if not error.retryable:
                await self.records.refused(governed.caller, governed.command, error, assessment=assessment)
            raise
        await self.records.decided(governed, assessment, "require_approval", proposal_id=view.proposal_id)
        note = card(view.proposal_id, view, view.expires_at)
        return reply(governed, assessment, None, key=view.idempotency_key).model_copy(
            update={"proposal": note, "digest": view.digest}
        )

    async def asked_before(self, governed: Governed, error: PlacetError) -> ToolReply | None:
        """A call made again after a crash is still its proposal, even if that has moved the world meanwhile."""
        if not governed.spec.writes or error.code not in _MOVED:
            return None
        proposed = await self.proposals.find(governed.tenant, governed.proposal_id)
        if proposed is None or proposed.packet.tool != governed.spec.name:
            return None
        return await self._repeat(governed, proposed) if governed.repeated else _waiting(governed, proposed)

    async def _repeat(self, governed: Governed, first: Proposed) -> ToolReply | None:
        """How the identical call before this one stands: it waits, or has its result. None: it ended without one."""
        same = ProposeAction(
            proposal_id=first.proposal_id,
            idempotency_key=first.idempotency_key,
            origin=first.origin,
            packet=first.packet,
        )
        view = await self.approvals.propose(same)
        waiting = _waiting(governed, first)
        if view.status is not ProposalStatus.COMPLETED:
            return waiting
        if view.finish_reason is not FinishReason.SUCCESS:
            return None
        result = masked((view.outcome or {}).get("result", {}), first.packet.obligations.mask)
        return waiting.model_copy(update={"status": "ok", "result": result, "proposal": None})


def _waiting(governed: Governed, proposed: Proposed) -> ToolReply:
    packet = proposed.packet
    return ToolReply(
        call_id=governed.command.call_id,
        tool=packet.tool,
        status="waiting_for_human",
        decision=DecisionNote(effect="require_approval", risk=packet.risk, policy_revision=packet.policy_revision),
        proposal=card(proposed.proposal_id, packet, proposed.expires_at),
        stripped=governed.stripped.removed,
        idempotency_key=proposed.idempotency_key,
        digest=packet.digest,
        repeated=True,
    )
