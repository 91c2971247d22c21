"""What a person may see of documents, and whether they may manage one: policy's answers of this moment.

Absent and forbidden take the same way: the same questions to policy, one look-up, one audit record, one answer (I3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.audit.trail import AuditTrail
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.policy import KnowledgeScope, Resource, Subject
from services.tool_executor.handlers.identity import Caller, Callers
from services.tool_executor.ports import DocumentRight

# Whoever may publish sees what there is to publish.
_UNPUBLISHED_DUTY = "documents.publish"


@dataclass(frozen=True, slots=True)
class DocumentRights:
    callers: Callers
    audit: AuditTrail

    async def scope(self, caller: Caller) -> KnowledgeScope:
        """Raises `policy_unavailable`."""
        scope = await self.callers.policy.knowledge_scope(Subject.of(caller.person))
        if scope.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no decision; nothing was done.")
        return scope

    async def right(self, caller: Caller) -> DocumentRight:
        """Raises `policy_unavailable`."""
        duty = await self.callers.duty(caller, _UNPUBLISHED_DUTY)
        return DocumentRight(await self.scope(caller), unpublished=duty.allowed)

    async def require(self, caller: Caller, duty: str, resource: Resource) -> None:
        """Raises `not_found` when the caller may not even know of it, `permission_denied` when only this is refused."""
        answer = await self.callers.duty(caller, duty, resource)
        if answer.allowed:
            return
        code = ErrorCode.PERMISSION_DENIED if answer.visible else ErrorCode.NOT_FOUND
        await self.refused(caller, duty, resource, code, policy_revision=answer.policy_revision)
        if answer.visible:
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "You may not do this.")
        raise not_found()

    async def refused(
        self, caller: Caller, action: str, resource: Resource, code: ErrorCode = ErrorCode.NOT_FOUND, **more: Any
    ) -> None:
        """Denials are audited, with what was asked for."""
        await self.audit.record(
            caller.grant.tenant,
            "access-denied",
            action=action,
            outcome="refused",
            code=code.value,
            actor=caller.person.id,
            roles=caller.person.roles,
            resource={"type": resource.type, "id": resource.id[:128]},
            **more,
        )
