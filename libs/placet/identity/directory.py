"""The directory port: facts about people, read at the moment of every decision."""

from __future__ import annotations

from typing import Protocol

from placet.contracts.directory import Person


class Directory(Protocol):
    """Implementations read the latest stored entry; a cached copy would keep a dismissed person alive."""

    async def find(self, tenant: str, person_id: str) -> Person | None:
        """None when there is no such person in this tenant."""
        ...


def nobody(tenant: str, person_id: str) -> Person:
    """Someone the directory does not know: exists for policy as an inactive person without any right."""
    safe = person_id if person_id.replace("-", "").replace("_", "").isalnum() and len(person_id) <= 64 else "unknown"
    return Person(id=safe, tenant=tenant, active=False)
