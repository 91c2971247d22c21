"""The directory port: facts about people, read at the moment of every decision."""

from __future__ import annotations

import re
from typing import Protocol

from placet.contracts.directory import Person

_ID = re.compile(r"[A-Za-z0-9_\-]{1,64}")


class Directory(Protocol):
    """Implementations read the latest stored entry; a cached copy would keep a dismissed person alive."""

    async def find(self, tenant: str, person_id: str) -> Person | None:
        """None when there is no such person in this tenant."""
        ...


def nobody(tenant: str, person_id: str) -> Person:
    """Someone the directory does not know: exists for policy as an inactive person without any right."""
    return Person(id=person_id if _ID.fullmatch(person_id) else "unknown", tenant=tenant, active=False)
