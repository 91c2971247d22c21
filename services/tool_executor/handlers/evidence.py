"""What an approved action rests on, once more before it is executed (R4, A8).

People approved it in view of its evidence. If its requester may not read that any more, or another version has taken
its place, the action no longer rests on what it was approved for. Runs withdraw such proposals themselves, as long as
they are undecided; this is for what changes between the approval and the claim. What is left is the moment between
this look and the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.evidence import version_of
from placet.contracts.policy import Subject
from placet.policy.port import PolicyDecisionPoint
from services.tool_executor.ports import DocumentRight, Documents


@dataclass(frozen=True, slots=True)
class EvidenceOfNow:
    policy: PolicyDecisionPoint
    documents: Documents

    async def require(self, requester: Person, lineage: Sequence[str]) -> None:
        """Raises `conflict` when something is gone, `policy_unavailable` when nobody can tell."""
        if not lineage:
            return
        scope = await self.policy.knowledge_scope(Subject.of(requester))
        if scope.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no decision; nothing was done.")
        known = {id_: version_of(id_) for id_ in lineage}
        asked = {version for version in known.values() if version is not None}
        right = DocumentRight(scope, unpublished=False)
        standing = await self.documents.versions(requester.tenant, right, asked)
        gone = sorted(id_ for id_, version in known.items() if version not in standing)
        if gone:
            raise PlacetError(
                ErrorCode.CONFLICT,
                "What this action was based on may not be read any more, or has been replaced.",
                diff={"evidence": {"signed": sorted(known), "now": sorted(known.keys() - set(gone))}},
            )
