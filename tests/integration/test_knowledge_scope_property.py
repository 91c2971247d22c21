"""For any people, bases and lists: found is exactly what may be read, judged by rules written down a second time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from placet.knowledge.models import Acl, KnowledgeScope
from placet.knowledge.store import KnowledgeStore
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import Remembering, add_base, add_document, new_tenant

ROLES, TEAMS, USERS = ("r1", "r2", "r3"), ("t1", "t2"), ("u1", "u2", "u3")


@dataclass(frozen=True)
class Shelf:
    """One document in a base of its own or in a shared one, as the test knows it."""

    tenant: str
    document_id: str
    base: Acl
    own: Acl
    published: bool


def _may_read(who: KnowledgeScope, shelf: Shelf) -> bool:
    return shelf.published and _may_enter(who, shelf)


def _may_list(who: KnowledgeScope, shelf: Shelf) -> bool:
    """Owners see their drafts as well."""
    owns = who.user in (shelf.base.owner, shelf.own.owner)
    return (shelf.published or owns) and _may_enter(who, shelf)


def _may_enter(who: KnowledgeScope, shelf: Shelf) -> bool:
    if who.tenant != shelf.tenant:
        return False
    base_named = bool(shelf.base.roles or shelf.base.teams)
    base_open = shelf.base.owner == who.user or (base_named and _listed(who, shelf.base))
    return base_open and (shelf.own.owner == who.user or _listed(who, shelf.own))


def _listed(who: KnowledgeScope, acl: Acl) -> bool:
    return (
        (not acl.roles or bool(acl.roles & who.roles))
        and (not acl.teams or bool(acl.teams & who.teams))
        and acl.clearance <= who.clearance
    )


def _random_acl(chance: random.Random, density: float) -> Acl:
    return Acl(
        roles=frozenset(role for role in ROLES if chance.random() < density),
        teams=frozenset(team for team in TEAMS if chance.random() < density / 2),
        clearance=chance.choice((0, 0, 0, 1, 2)) if density else 0,
        owner=chance.choice((None, None, *USERS)),
    )


def _random_person(chance: random.Random, tenants: tuple[str, ...]) -> KnowledgeScope:
    return KnowledgeScope(
        tenant=chance.choice(tenants),
        user=chance.choice((*USERS, "stranger", 'u"1', "u1,u2")),
        roles=frozenset(role for role in (*ROLES, 'r1"', "{r1}") if chance.random() < 0.4),
        teams=frozenset(team for team in TEAMS if chance.random() < 0.5),
        clearance=chance.randrange(4),
    )


async def _build(store: KnowledgeStore, chance: random.Random, tenants: tuple[str, ...]) -> list[Shelf]:
    shelves: list[Shelf] = []
    for tenant in tenants:
        for number in range(6):
            base = _random_acl(chance, 0.5)
            await add_base(
                store,
                tenant,
                f"kb-{number}",
                roles=base.roles,
                teams=base.teams,
                clearance=base.clearance,
                owner=base.owner,
            )
            for copy in range(2):
                own = _random_acl(chance, 0.3 if copy else 0.0)
                shelves.append(Shelf(tenant, f"doc-{number}-{copy}", base, own, published=chance.random() < 0.8))
                own_list = {"roles": own.roles, "teams": own.teams, "clearance": own.clearance, "owner": own.owner}
                body = f"Gate code of {tenant} document {number} {copy}."
                await add_document(
                    store,
                    tenant,
                    f"doc-{number}-{copy}",
                    body,
                    base_id=f"kb-{number}",
                    publish=shelves[-1].published,
                    **own_list,
                )
    return shelves


@pytest.mark.spec("R2", "R3", "I4")
async def test_what_is_found_listed_and_resolved_is_exactly_what_may_be_read(postgres_rig: PostgresRig) -> None:
    store, chance = postgres_rig.knowledge(Remembering(postgres_rig.embedder)), random.Random(20261130)
    tenants = (new_tenant(), new_tenant())
    shelves = await _build(store, chance, tenants)
    everybody = [_random_person(chance, tenants) for _ in range(60)]
    readable_pairs = 0
    for who in everybody:
        expected = {shelf.document_id for shelf in shelves if _may_read(who, shelf)}
        chunk_ids = [f"{shelf.document_id}:v1:chunk-01" for shelf in shelves]
        found, listed, resolved = await asyncio.gather(
            store.search(who, "gate code document", 50),
            store.list_documents(who, limit=200),
            store.resolve_chunks(who, chunk_ids),
        )
        assert {hit.document_id for hit in found} == expected, who
        assert all(who.tenant in hit.body for hit in found)
        listable = {shelf.document_id for shelf in shelves if _may_list(who, shelf)}
        assert {item.document_id for item in listed.items} == listable, who
        assert {hit.document_id for hit in resolved} == expected, who
        readable_pairs += len(expected)
    assert 60 < readable_pairs < len(everybody) * 12, "the random world must hold readable and unreadable pairs"
