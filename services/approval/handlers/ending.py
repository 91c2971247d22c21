"""Appending decided events, surfacing new proposals, and bringing decided ones to their last event.

Each step is safe to repeat: it looks at the folded state first, and its append names the event it follows. Where a
process dies between two appends, the reaction to the first of them does the second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.observability import metrics
from services.approval.domain.decide import Named, completed
from services.approval.domain.state import Proposal, Recorded, advance
from services.approval.handlers.interest import Interest
from services.approval.ports import ProposalLog, StaleError


@dataclass(frozen=True, slots=True)
class Ending:
    log: ProposalLog
    audit: AuditTrail
    interest: Interest
    _surfacing: dict[str, asyncio.Event] = field(default_factory=dict)

    async def append_all(self, state: Proposal, events: list[Named]) -> Proposal:
        """Append `events` in order and end the proposal if they decide its end. Raises `StaleError`."""
        for name, event in events:
            seq, time = await self.log.append(state.origin.tenant, state.id, name, event, state.last_seq)
            state = advance(state, Recorded(seq, name, time, event))
        return await self.finish(state)

    async def finish(self, state: Proposal) -> Proposal:
        """Write `completed` behind a decided end. Losing the race for it is fine: then it is written."""
        if state.ending is None or state.finish_reason is not None:
            return state
        event = completed(state, state.ending, state.ending_outcome or {})
        try:
            return await self.append_all(state, [("completed", event)])
        except StaleError:
            return replace(state, finish_reason=state.ending, outcome=state.ending_outcome)

    async def surface(self, state: Proposal) -> Proposal:
        """Announce a proposal that is stored but not yet shown.

        Who proposed and the reaction to `proposed` come here at the same moment: one appends, the other waits for it.
        """
        under_way = self._surfacing.get(state.id)
        if under_way:
            await under_way.wait()
            state = await self.log.recall(state.origin.tenant, state.id) or state
        if state.surfaced or not state.open:
            return state
        done = self._surfacing[state.id] = asyncio.Event()
        try:
            return await self._announce(state)
        finally:
            self._surfacing.pop(state.id, None)
            done.set()

    async def _announce(self, state: Proposal) -> Proposal:
        """Or cancel it, unseen, when its run has ended meanwhile: nobody would learn of a decision."""
        packet = state.packet
        event = ev.WaitingForHuman(
            proposal_id=state.id,
            tool=packet.tool,
            title=packet.title,
            risk=packet.risk.value,
            requester=state.origin.requester,
            approver_roles=packet.obligations.approver_roles,
            needed=packet.obligations.approvals,
            expires_at=state.expires_at,
        )
        cancelled = ev.Cancelled(proposal_id=state.id, by=state.origin.requester)
        wanted = await self.interest.anyone(state)
        try:
            return await self.append_all(state, [("waiting-for-human", event) if wanted else ("cancelled", cancelled)])
        except StaleError:
            return state

    async def report_look(self, state: Proposal, event: ev.Regraded) -> None:
        """The record of a fresh look, once however often this is done."""
        await self.audit.record(
            state.origin.tenant,
            "proposal-regraded",
            action=event.packet.tool,
            outcome=event.outcome,
            once=f"regraded:{state.id}:{event.trigger}:{event.packet.digest}",
            actor=state.origin.requester,
            tool=event.packet.tool,
            policy_revision=event.packet.policy_revision,
            approvers=tuple(approval.by for approval in event.approvals),
            code=event.finish_reason.value if event.finish_reason else None,
            note=f"{event.trigger}: {event.reason}",
            proposal_id=state.id,
            run_id=state.origin.run_id,
            call_id=state.origin.call_id,
        )

    async def close(self, state: Proposal) -> None:
        """What follows the last event: its record, once however often this is done."""
        reason = state.finish_reason
        if reason is None:
            return
        await self.audit.record(
            state.origin.tenant,
            "proposal-completed",
            action=state.packet.tool,
            outcome=reason.value,
            once=f"completed:{state.id}",
            actor=state.origin.requester,
            tool=state.packet.tool,
            approvers=state.decided_by,
            policy_revision=state.packet.policy_revision,
            proposal_id=state.id,
            run_id=state.origin.run_id,
            call_id=state.origin.call_id,
            idempotency_key=state.idempotency_key,
            request_id=state.origin.request_id,
        )
        metrics.PROPOSALS.labels(reason.value).inc()
