"""Whose summary of which conversation: pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from placet.contracts import subjects
from placet.contracts.errors import not_found


@dataclass(frozen=True, slots=True)
class Place:
    """Where one summary lies. Tenant and actor come from a verified grant, never from the command."""

    tenant: str
    actor: str
    conversation_id: str

    def key(self) -> str:
        """The bucket key. The conversation id is hashed: it is the caller's own text and need not be a token.

        Raises `PlacetError(not_found)` for a tenant or actor that could not have stored anything.
        """
        conversation = hashlib.sha256(self.conversation_id.encode()).hexdigest()[:40]
        try:
            return f"{subjects.token(self.tenant)}.{subjects.token(self.actor)}.{conversation}"
        except subjects.BadSubjectError as error:
            raise not_found() from error


@dataclass(frozen=True, slots=True)
class Remembered:
    """One summary and when it was last written."""

    summary: str
    updated_at: datetime
