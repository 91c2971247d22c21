"""What an actor may read, asked of policy: what packs are handed in place of policy itself."""

from __future__ import annotations

from typing import Any

from placet.contracts.directory import Person
from placet.contracts.policy import Subject
from placet.policy.port import PolicyDecisionPoint
from placet.toolkit import Actor
from placet.toolkit.pack import ScopeResolver


def scope_of(policy: PolicyDecisionPoint) -> ScopeResolver:
    """Policy's answer of the moment, as JSON."""

    async def scope(actor: Actor) -> dict[str, Any]:
        person = Person(
            id=actor.id,
            tenant=actor.tenant,
            active=actor.active,
            roles=tuple(sorted(actor.roles)),
            teams=tuple(sorted(actor.teams)),
            clearance=actor.clearance,
        )
        return (await policy.knowledge_scope(Subject.of(person))).model_dump(mode="json")

    return scope
