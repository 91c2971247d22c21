"""People and documents for the knowledge tests."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from placet.knowledge.models import Acl, KnowledgeBase, KnowledgeScope, NewVersion
from placet.knowledge.ports import Embedder
from placet.knowledge.store import KnowledgeStore


def person(
    user: str, *roles: str, teams: tuple[str, ...] = (), clearance: int = 1, tenant: str = "acme"
) -> KnowledgeScope:
    return KnowledgeScope(tenant, user, frozenset({"employee", *roles}), frozenset(teams), clearance)


ALICE = person("alice", "customer_support", teams=("support",))
BOB = person("bob", "rnd", teams=("rnd",))
CAROL = person("carol", "knowledge_admin", teams=("knowledge",))
DAVE = person("dave", "finance_approver", teams=("finance",))
FRANK = person("frank", "c_level", teams=("executive",), clearance=3)
HEIDI = person("heidi", "hr", teams=("people",), clearance=2)
MIKE = KnowledgeScope.nothing("acme")
AUDITOR = KnowledgeScope("acme", "auditor", frozenset({"auditor"}))
GLOBEX_ALICE = person("alice", "customer_support", teams=("support",), tenant="globex")


class Remembering:
    """An embedder that asks another one once per text."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.weight = inner.model, inner.weight
        self._inner = inner
        self._known: dict[str, list[float]] = {}

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        for text in texts:
            if text not in self._known:
                (self._known[text],) = await self._inner.embed([text])
        return [self._known[text] for text in texts]


def new_tenant() -> str:
    """A tenant of one test alone."""
    return f"t-{secrets.token_hex(6)}"


async def add_base(store: KnowledgeStore, tenant: str, base_id: str = "kb", **acl: object) -> None:
    await store.put_base(KnowledgeBase(tenant, base_id, base_id, _acl(**(acl or {"roles": ["employee"]}))))


async def add_document(
    store: KnowledgeStore,
    tenant: str,
    document_id: str,
    body: str,
    *,
    base_id: str = "kb",
    publish: bool = True,
    **acl: object,
) -> None:
    state = await store.ingest(
        NewVersion(
            tenant,
            document_id,
            base_id,
            document_id,
            f"{document_id}.md",
            body.encode(),
            "test",
            ("test",),
            _acl(**acl),
        )
    )
    if publish:
        await store.publish(
            tenant,
            document_id,
            state.version,
            lock_version=state.lock_version,
            actor="test",
            idempotency_key=f"{document_id}:{state.version}",
        )


def _acl(roles: object = (), teams: object = (), clearance: object = 0, owner: object = None) -> Acl:
    assert isinstance(roles, list | tuple | set | frozenset)
    assert isinstance(teams, list | tuple | set | frozenset)
    assert isinstance(clearance, int)
    assert owner is None or isinstance(owner, str)
    return Acl(roles=frozenset(roles), teams=frozenset(teams), clearance=clearance, owner=owner)
