"""The demo world: what outside checks and the demo count on."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from sqlalchemy import text

from placet.contracts.directory import Person
from placet.knowledge.models import KnowledgeScope
from placet.knowledge.seed import Manifest, load
from placet.storage import OWNER, seed_business
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import ALICE, CAROL

TOKENS = {"alice", "bob", "carol", "dave", "erin", "mike", "auditor", "directory_admin", "globex_alice"}


def _people(root: Path) -> dict[str, Person]:
    entries = json.loads((root / "seeds/directory.json").read_text(encoding="utf-8"))["people"]
    return {entry.pop("key"): Person.model_validate(entry) for entry in entries}


def test_directory_holds_everybody_a_token_is_made_for(root: Path) -> None:
    people = _people(root)
    assert set(people) >= TOKENS
    assert [key for key, person in people.items() if not person.active] == ["mike"]
    assert (people["globex_alice"].tenant, people["globex_alice"].id) == ("globex", "alice")
    assert "finance_approver" in people["dave"].roles
    assert "finance_approver" in people["erin"].roles
    assert "knowledge_admin" in people["carol"].roles


async def test_loading_again_changes_nothing(postgres_rig: PostgresRig, root: Path) -> None:
    store = postgres_rig.knowledge()
    before = await store.list_documents(CAROL, limit=200, include_unpublished=True)
    assert await load(store, root / "seeds/knowledge") == 0
    added = await seed_business(postgres_rig.database(OWNER).engine, root / "seeds/business")
    assert added == dict.fromkeys(("customers", "orders", "shipments", "refund_limits"), 0)
    assert await store.list_documents(CAROL, limit=200, include_unpublished=True) == before


async def test_loading_after_people_changed_a_base_leaves_it(postgres_rig: PostgresRig, root: Path) -> None:
    async with postgres_rig.database(OWNER).transaction() as connection:
        await connection.execute(text("UPDATE knowledge.bases SET title = 'Renamed' WHERE base_id = 'kb-hr'"))
    await load(postgres_rig.knowledge(), root / "seeds/knowledge")
    async with postgres_rig.database(OWNER).transaction() as connection:
        title = text("SELECT title FROM knowledge.bases WHERE tenant = 'acme' AND base_id = 'kb-hr'")
        assert (await connection.execute(title)).scalar_one() == "Renamed"


async def test_every_document_has_the_status_of_the_manifest(postgres_rig: PostgresRig, root: Path) -> None:
    manifest = Manifest.model_validate_json((root / "seeds/knowledge/manifest.json").read_bytes())
    store = postgres_rig.knowledge()
    for entry in manifest.documents:
        state = await store.document_state(entry.tenant, entry.id)
        assert state is not None
        assert (state.version, state.status) == (1, entry.status), entry.id
    assert {Path(entry.file).suffix for entry in manifest.documents} == {".md", ".txt", ".html", ".pdf", ".docx"}


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("key", "query", "document_id", "fact"),
    [
        ("alice", "客户招待费上限", "doc-expense-policy", "200"),
        ("alice", "mobile phone allowance", "doc-expense-policy", "CNY 80"),
        ("alice", "refund period for broken goods", "doc-refund-handbook", "30 days"),
        ("alice", "年假有多少天", "doc-leave", "12 天"),
        ("bob", "office opening hours", "doc-office-guide", "7:30"),
        ("bob", "发布代号是什么", "doc-rnd-handbook", "蓝鲸"),
        ("frank", "severance in the layoff plan", "doc-layoff-plan", "one month's salary"),
        ("heidi", "高级工程师的月薪范围", "doc-hr-file", "28,000"),
        ("globex_alice", "nightly lodging limit in Shanghai", "doc-travel-v2", "888"),
    ],
)
async def test_facts_of_the_demo_world_are_found_first_by_their_readers(
    postgres_rig: PostgresRig, root: Path, key: str, query: str, document_id: str, fact: str
) -> None:
    reader = _people(root)[key]
    scope = KnowledgeScope(reader.tenant, reader.id, frozenset(reader.roles), frozenset(reader.teams), reader.clearance)
    hit = (await postgres_rig.knowledge().search(scope, query, 3))[0]
    assert hit.document_id == document_id
    assert fact in hit.snippet


async def test_draft_of_remote_work_is_not_found_before_it_is_published(postgres_rig: PostgresRig) -> None:
    hits = await postgres_rig.knowledge().search(ALICE, "remote work allowance 远程办公补贴", 50)
    assert not any("380" in hit.body for hit in hits)


async def test_orders_are_those_that_outside_checks_use(postgres_rig: PostgresRig) -> None:
    query = text("""
        SELECT o.order_id, o.state, o.paid_amount, o.currency, 'alice' = ANY(c.served_by) AS alices
        FROM business.orders o JOIN business.customers c USING (tenant, customer_id) WHERE o.tenant = 'acme'
    """)
    async with postgres_rig.database().transaction(read_only=True) as connection:
        orders = {row.order_id: row for row in await connection.execute(query)}
    assert all(orders[f"A100{n}"].state == "delivered" and orders[f"A100{n}"].alices for n in range(1, 9))
    assert {row.currency for row in orders.values()} == {"CNY"}
    assert (str(orders["A1001"].paid_amount), str(orders["A2001"].paid_amount)) == ("299.00", "4800.00")
    assert not orders["A3001"].alices


def test_generated_documents_are_those_of_the_script(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("build_documents", root / "seeds/build_documents.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    acme = root / "seeds/knowledge/acme"
    assert script.expense_policy() == (acme / "expense-policy.pdf").read_bytes()
    assert script.refund_handbook() == (acme / "refund-handbook.docx").read_bytes()
