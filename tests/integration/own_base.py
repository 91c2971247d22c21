"""A knowledge base of one test alone."""

from __future__ import annotations

import secrets

from placet.knowledge.models import Acl, KnowledgeBase
from tests.integration.document_house import DocumentHouse


async def base_of(
    house: DocumentHouse, *, roles: tuple[str, ...] = (), owner: str | None = None, clearance: int = 0
) -> str:
    """A base of this test alone."""
    base_id = f"kb-{secrets.token_hex(4)}"
    acl = Acl(roles=frozenset(roles), clearance=clearance, owner=owner)
    await house.governance.postgres.knowledge().put_base(KnowledgeBase("acme", base_id, base_id, acl))
    return base_id
