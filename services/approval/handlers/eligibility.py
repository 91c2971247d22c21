"""Who is asking, and what policy lets them do with a proposal, judged at this moment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.policy import (
    Eligibility,
    Obligations,
    ProposalAction,
    ProposalFacts,
    Subject,
)
from placet.contracts.proposals import ActionPacket
from placet.contracts.tools import Risk
from placet.identity.directory import Directory, nobody
from placet.policy.port import PolicyDecisionPoint
from services.approval.domain.state import Proposal

# Judged in place of a proposal that does not exist, so that absent and invisible cost the same (I3).
_PHANTOM = ProposalFacts(
    id="absent",
    tenant="absent",
    requester="absent",
    tool="absent",
    risk=Risk.CRITICAL_SYSTEM,
    obligations=Obligations(approver_roles=("absent",)),
)


def facts_of(state: Proposal, packet: ActionPacket) -> ProposalFacts:
    return ProposalFacts(
        id=state.id,
        tenant=state.origin.tenant,
        requester=state.origin.requester,
        tool=packet.tool,
        risk=packet.risk,
        obligations=packet.obligations,
        given=state.approver_ids,
        authors=state.origin.authors,
    )


@dataclass(frozen=True, slots=True)
class Judge:
    """Reads the directory and asks policy."""

    directory: Directory
    policy: PolicyDecisionPoint

    async def person(self, tenant: str, person_id: str) -> Person:
        return await self.directory.find(tenant, person_id) or nobody(tenant, person_id)

    async def still_counts(self, person: Person, state: Proposal) -> Eligibility:
        """Whether an approval that this person gave still counts, judged as if it were given now."""
        others = tuple(approval for approval in state.approvals if approval.by != person.id)
        return await self.eligibility(person, "approve", replace(state, approvals=others))

    async def eligibility(
        self, person: Person, action: ProposalAction, state: Proposal | None, packet: ActionPacket | None = None
    ) -> Eligibility:
        """Raises `PlacetError(policy_unavailable)` when policy gives no answer: nothing is decided then."""
        facts = facts_of(state, packet or state.packet) if state else _PHANTOM
        answer = await self.policy.who_may_decide(Subject.of(person), action, facts)
        if answer.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no answer; nothing was decided.")
        return answer
