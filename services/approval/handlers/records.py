"""Audit records of decisions, written from the stored events themselves.

Written beside the append they could be lost with the process; as a reaction to the event they are written by whoever
is alive, at least once, under an id that comes from the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.registry import approval_events
from placet.messaging.reading import Stored
from services.approval.domain.state import Proposal

_MODELS = approval_events()
_DECISIONS = {"approved": "approve", "edited": "edit", "rejected": "reject", "responded": "respond"}


@dataclass(frozen=True, slots=True)
class DecisionRecords:
    audit: AuditTrail

    async def of(self, stored: Stored, state: Proposal) -> None:
        """Record the decision that this event tells of, with the run it belongs to; nothing for other events."""
        decision = _DECISIONS.get(stored.name)
        if decision:
            event = _MODELS[stored.name].model_validate(stored.envelope.data)
            await self.audit.record(
                state.origin.tenant,
                "proposal-decided",
                action=decision,
                outcome=decision,
                once=f"decided:{state.id}:{stored.seq}",
                proposal_id=state.id,
                run_id=state.origin.run_id,
                **_decider(event, state),
            )


def _decider(event: Event, state: Proposal) -> dict[str, Any]:
    """Who decided, with which roles, on what digest."""
    if isinstance(event, ev.Approved):
        return {"actor": event.approval.by, "roles": event.approval.roles, "note": event.packet.digest}
    who = event if isinstance(event, ev.Rejected | ev.Responded) else None
    return {"actor": who.by if who else None, "roles": who.roles if who else (), "note": state.packet.digest}
