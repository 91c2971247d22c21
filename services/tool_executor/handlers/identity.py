"""Who calls: the verified grant and the directory's facts of this moment."""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.policy import Channel, Eligibility, Resource, Subject
from placet.identity.directory import Directory, nobody
from placet.identity.grants import Grant, GrantVerifier, Purpose
from placet.policy.port import PolicyDecisionPoint


@dataclass(frozen=True, slots=True)
class Caller:
    grant: Grant
    person: Person

    @property
    def channel(self) -> Channel:
        """A run's grant is held by the agent; only a person's own request counts as `http`."""
        return "chat" if self.grant.purpose is Purpose.RUN else "http"


@dataclass(frozen=True, slots=True)
class Callers:
    grants: GrantVerifier
    directory: Directory
    policy: PolicyDecisionPoint

    async def of(self, token: str, tenant: str, *, purpose: Purpose | None = None) -> Caller:
        """Raises `PlacetError(unauthenticated)` for a grant that is not genuine, current and of this tenant."""
        grant = self.grants.verify(token, tenant, purpose=purpose)
        return Caller(grant, await self.person(grant.tenant, grant.actor))

    async def person(self, tenant: str, person_id: str) -> Person:
        return await self.directory.find(tenant, person_id) or nobody(tenant, person_id)

    async def duty(self, caller: Caller, duty: str, resource: Resource | None = None) -> Eligibility:
        """Raises `PlacetError(policy_unavailable)` when policy gives no answer. Default resource: the whole tenant."""
        answer = await self.policy.admin(Subject.of(caller.person), duty, resource)
        if answer.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no decision; nothing was done.")
        return answer
