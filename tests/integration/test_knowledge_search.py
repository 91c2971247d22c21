"""Search and reading of the demo world: the right answer for those who may have it, nothing for the others."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge.embedders import NoEmbedder
from placet.knowledge.errors import NotFound
from placet.knowledge.lexical import OCCURRENCES, STEPS
from placet.knowledge.models import Hit, KnowledgeScope
from placet.knowledge.parser import Parser
from placet.knowledge.scope import settings
from placet.knowledge.store import KnowledgeStore
from placet.knowledge.tokens import quoted, tsvector
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import (
    ALICE,
    AUDITOR,
    BOB,
    CAROL,
    DAVE,
    FRANK,
    GLOBEX_ALICE,
    HEIDI,
    MIKE,
    add_base,
    add_document,
    new_tenant,
    person,
)

ZH, EN = "上海住宿上限是多少？", "What is the nightly lodging limit in Shanghai?"
CANARY = "CANARY-7f3a-LAYOFF"


@pytest.mark.spec("K2", "K3")
@pytest.mark.parametrize("vectors", [True, False], ids=["use", "none"])
@pytest.mark.parametrize(
    ("query", "fact"), [(ZH, "上海住宿上限为每晚 650 元。"), (EN, "The nightly lodging limit in Shanghai is CNY 650.")]
)
async def test_search_in_either_language_finds_the_second_edition_first_and_never_the_first(
    postgres_rig: PostgresRig, query: str, fact: str, vectors: bool
) -> None:
    hits = await postgres_rig.knowledge(None if vectors else NoEmbedder()).search(ALICE, query, 50)
    assert (hits[0].document_id, hits[0].version) == ("doc-travel-v2", 1)
    assert hits[0].snippet.startswith(fact)
    assert hits[0].chunk_id.startswith("doc-travel-v2:v1:chunk-")
    assert hits[0].authors == ("carol",)
    assert "doc-travel-v1" not in {hit.document_id for hit in hits}
    assert not any("600" in hit.body for hit in hits)


@pytest.mark.spec("K2")
async def test_search_across_languages_needs_vectors(postgres_rig: PostgresRig) -> None:
    store, tenant = postgres_rig.knowledge(), new_tenant()
    await add_base(store, tenant)
    facts = ("上海住宿上限为每晚六百五十元。", "年假每年十二天。", "会议室可提前两周预订。")
    for number, fact in enumerate(facts):
        await add_document(store, tenant, f"doc-{number}", fact)
    reader, query = person("rita", tenant=tenant), "maximum hotel price per night in Shanghai"
    assert [hit.body for hit in await store.search(reader, query, 1)] == [facts[0]]
    assert await postgres_rig.knowledge(NoEmbedder()).search(reader, query, 1) == []


@pytest.mark.spec("I4")
async def test_search_in_another_tenant_finds_its_own_look_alike(postgres_rig: PostgresRig) -> None:
    hits = await postgres_rig.knowledge().search(GLOBEX_ALICE, EN, 10)
    assert {hit.document_id for hit in hits} == {"doc-travel-v2"}
    assert all("888" in hit.body for hit in hits)


@pytest.mark.spec("R2", "R3")
@pytest.mark.parametrize("reader", [ALICE, BOB, CAROL, DAVE, HEIDI, MIKE, AUDITOR, GLOBEX_ALICE], ids=lambda r: r.user)
async def test_canary_appears_on_no_path_for_those_who_may_not_read_it(
    postgres_rig: PostgresRig, reader: KnowledgeScope
) -> None:
    store = postgres_rig.knowledge()
    everything: list[Hit] = []
    for query in (CANARY, "layoff plan 裁员计划", "42 positions in logistics", "", EN):
        everything += await store.search(reader, query, 50)
    everything += await store.resolve_chunks(reader, [f"doc-layoff-plan:v1:chunk-{n:02d}" for n in range(10)])
    listed = await store.list_documents(reader, limit=200, include_unpublished=True)
    assert "LAYOFF" not in repr((everything, listed)).upper()
    for unpublished in (True, False):
        with pytest.raises(NotFound):
            await store.get_document(reader, "doc-layoff-plan", include_unpublished=unpublished)
        with pytest.raises(NotFound):
            await store.source(reader, "doc-layoff-plan", include_unpublished=unpublished)
    with pytest.raises(NotFound):
        await store.read_version(reader, "doc-layoff-plan", 1)


async def test_canary_is_found_by_its_reader(postgres_rig: PostgresRig) -> None:
    assert CANARY in (await postgres_rig.knowledge().search(FRANK, "layoff plan", 3))[0].body


@pytest.mark.spec("R2")
async def test_search_by_somebody_who_sees_nothing_is_empty(postgres_rig: PostgresRig) -> None:
    store = postgres_rig.knowledge()
    assert [await store.search(reader, EN, 10) for reader in (MIKE, AUDITOR)] == [[], []]


@pytest.mark.spec("K1")
async def test_document_that_narrows_its_base_is_read_by_its_listed_roles_only(postgres_rig: PostgresRig) -> None:
    store = postgres_rig.knowledge()
    query = "lodging limit in Chengdu during the trade fair"
    assert (await store.search(DAVE, query, 3))[0].document_id == "doc-travel-exceptions"
    assert "doc-travel-exceptions" not in {hit.document_id for hit in await store.search(ALICE, query, 50)}


@pytest.mark.spec("W6", "K3")
async def test_citations_that_are_invented_outdated_or_forbidden_are_left_out(postgres_rig: PostgresRig) -> None:
    real = (await postgres_rig.knowledge().search(ALICE, EN, 1))[0]
    asked = [
        "doc-travel-v2:v1:chunk-99",
        "doc-travel-v1:v1:chunk-01",
        "doc-rnd-handbook:v1:chunk-01",
        "doc-remote-work:v1:chunk-01",
        real.chunk_id,
        real.chunk_id,
        "' OR true --",
    ]
    resolved = await postgres_rig.knowledge().resolve_chunks(ALICE, asked)
    assert [hit.chunk_id for hit in resolved] == [real.chunk_id]
    assert (resolved[0].title, resolved[0].body) == (real.title, real.body)


@pytest.mark.spec("R3")
async def test_bodies_without_an_actor_in_the_transaction_are_invisible(postgres_rig: PostgresRig) -> None:
    count = text("SELECT count(*) FROM knowledge.chunk_bodies")
    database = postgres_rig.database()
    async with database.transaction() as connection:
        assert (await connection.execute(count)).scalar_one() == 0
    async with database.transaction(local={"placet.tenant": "acme"}) as connection:
        assert (await connection.execute(count)).scalar_one() == 0
    async with database.transaction(local=settings(ALICE)) as connection:
        assert (await connection.execute(count)).scalar_one() > 0
        forbidden = text("SELECT count(*) FROM knowledge.chunk_bodies WHERE document_id = 'doc-layoff-plan'")
        assert (await connection.execute(forbidden)).scalar_one() == 0


@pytest.mark.spec("R4")
async def test_revoked_base_is_gone_for_the_next_search_citation_and_source(postgres_rig: PostgresRig) -> None:
    store, tenant = postgres_rig.knowledge(), new_tenant()
    reader = person("rita", tenant=tenant)
    await add_base(store, tenant)
    await add_document(store, tenant, "doc-1", "The gate code is 4711.")
    (hit,) = await store.search(reader, "gate code", 5)
    await add_base(store, tenant, roles=["somebody-else"])
    assert await store.search(reader, "gate code", 5) == []
    assert await store.resolve_chunks(reader, [hit.chunk_id]) == []
    with pytest.raises(NotFound):
        await store.source(reader, "doc-1")


async def test_base_without_roles_and_teams_is_its_owners_alone(postgres_rig: PostgresRig) -> None:
    store, tenant = postgres_rig.knowledge(), new_tenant()
    await add_base(store, tenant, owner="olga")
    await add_document(store, tenant, "doc-1", "The gate code is 4711.")
    assert len(await store.search(person("olga", tenant=tenant, clearance=0), "gate code", 5)) == 1
    assert await store.search(person("rita", tenant=tenant, clearance=10), "gate code", 5) == []


@pytest.mark.spec("K2")
async def test_search_under_a_selective_scope_gets_its_full_top_k(postgres_rig: PostgresRig) -> None:
    """220 chunks that match better than what the reader may see, and 10 that the reader may see."""
    store, tenant = postgres_rig.knowledge(), new_tenant()
    await add_base(store, tenant, "hidden", roles=["nobody"])
    await add_base(store, tenant, "open", roles=["employee"])
    sections = "\n\n".join(f"# Part {n}\n\nGate code gate code, gate code number {n}." for n in range(220))
    await add_document(store, tenant, "doc-hidden", sections, base_id="hidden")
    for n in range(10):
        body = f"Weather report {n}: rain and wind all day long. Somewhere in it stands a gate code, among much else."
        await add_document(store, tenant, f"doc-{n}", body, base_id="open")
    hits = await store.search(person("rita", tenant=tenant), "gate code", 10)
    assert {hit.document_id for hit in hits} == {f"doc-{n}" for n in range(10)}
    assert all(hit.similarity is not None and hit.coverage == pytest.approx(1.0) for hit in hits)


@pytest.mark.spec("K2")
async def test_hidden_documents_change_neither_scores_nor_coverage(postgres_rig: PostgresRig) -> None:
    """Word rarity is counted over what the reader sees, else it would tell of hidden text."""
    store, tenant = postgres_rig.knowledge(), new_tenant()
    await add_base(store, tenant)
    await add_document(store, tenant, "doc-1", "The gate code is 4711. Bring your badge.")
    await add_document(store, tenant, "doc-2", "The badge office opens at nine.")
    before = await store.search(person("rita", tenant=tenant), "gate code badge", 10)
    await add_base(store, tenant, "hidden", roles=["nobody"])
    hidden = "\n\n".join(f"# Part {n}\n\nGate code badge {n}." for n in range(30))
    await add_document(store, tenant, "doc-hidden", hidden, base_id="hidden")
    await add_document(store, tenant, "doc-draft", hidden, publish=False)
    assert await store.search(person("rita", tenant=tenant), "gate code badge", 10) == before


async def test_search_with_a_failing_embedder_is_lexical(postgres_rig: PostgresRig) -> None:
    class Broken(NoEmbedder):
        async def embed(self, texts: object) -> list[list[float]]:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "down")

    assert (await postgres_rig.knowledge(Broken()).search(ALICE, EN, 1))[0].document_id == "doc-travel-v2"


@pytest.mark.parametrize("query", ["", "？！", "'", "' | 'x", ":* & !", "\x00", "\ud800", "a" * 20_000, "上" * 5_000])
async def test_search_for_odd_text_does_no_harm(postgres_rig: PostgresRig, query: str) -> None:
    assert len(await postgres_rig.knowledge().search(ALICE, query, 5)) <= 5


@pytest.mark.spec("I3")
async def test_absent_and_forbidden_documents_raise_the_same(postgres_rig: PostgresRig) -> None:
    store = postgres_rig.knowledge()
    errors = []
    for document_id in ("doc-layoff-plan", "doc-rnd-handbook", "doc-remote-work", "doc-travel-v1", "no-such-document"):
        with pytest.raises(NotFound) as caught:
            await store.get_document(ALICE, document_id)
        errors.append((caught.value.code, caught.value.message, caught.value.details))
    assert errors == [errors[0]] * 5


async def test_list_documents_pages_through_what_is_readable(postgres_rig: PostgresRig) -> None:
    store = postgres_rig.knowledge()
    cursor, seen = None, []
    while True:
        page = await store.list_documents(ALICE, cursor, 3)
        seen += [item.document_id for item in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == sorted(seen)
    assert {"doc-travel-v2", "doc-expense-policy", "doc-refund-handbook"} <= set(seen)
    assert not {"doc-travel-v1", "doc-remote-work", "doc-rnd-handbook", "doc-hr-file"} & set(seen)
    assert (await store.list_documents(ALICE, "%%%", 3)).items == (await store.list_documents(ALICE, None, 3)).items


@pytest.mark.spec("K4")
async def test_read_version_gives_any_version_from_its_original(postgres_rig: PostgresRig) -> None:
    store = KnowledgeStore(postgres_rig.database(), postgres_rig.originals, NoEmbedder(), Parser())
    archived = await store.read_version(CAROL, "doc-travel-v1")
    assert (archived.status, archived.version) == ("archived", 1)
    assert "上海住宿上限为每晚 600 元。" in archived.content
    pdf = await store.read_version(CAROL, "doc-expense-policy", 1)
    assert "[page 2]" in pdf.content
    with pytest.raises(NotFound):
        await store.read_version(CAROL, "doc-travel-v1", 2)


@pytest.mark.spec("W10")
async def test_source_gives_the_original_bytes_in_slices(postgres_rig: PostgresRig) -> None:
    store = postgres_rig.knowledge()
    whole = await store.source(ALICE, "doc-expense-policy")
    assert (whole.size, whole.media_type, whole.filename) == (len(whole.data), "application/pdf", "expense-policy.pdf")
    second = await store.source(ALICE, "doc-expense-policy", 1, offset=10, limit=5)
    assert second.data == whole.data[10:15]
    assert (await store.source(ALICE, "doc-expense-policy", 1, offset=10**9)).data == b""


async def test_source_with_a_lost_original_is_dependency_unavailable(postgres_rig: PostgresRig) -> None:
    store, tenant = postgres_rig.knowledge(), new_tenant()
    await add_base(store, tenant)
    await add_document(store, tenant, "doc-1", "The gate code is 4711.")
    postgres_rig.originals.files = {k: v for k, v in postgres_rig.originals.files.items() if not k.startswith(tenant)}
    with pytest.raises(PlacetError) as caught:
        await store.source(person("rita", tenant=tenant), "doc-1")
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


async def test_hits_of_documents_from_outside_are_marked_untrusted(postgres_rig: PostgresRig) -> None:
    hits = await postgres_rig.knowledge().search(ALICE, "lamp batch LW-2210 crack", 3)
    assert (hits[0].document_id, hits[0].trusted, hits[0].authors) == (
        "doc-supplier-email",
        False,
        ("external:lamp-works",),
    )


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 10, 60, 100, 254, 255, 300])
async def test_counts_read_back_from_ranks_are_exact(postgres_rig: PostgresRig, count: int) -> None:
    """Up to 255, where PostgreSQL keeps no more positions."""
    query = text(f"SELECT {OCCURRENCES % ':term'} FROM (SELECT CAST(:terms AS tsvector) AS terms) held")
    async with postgres_rig.database().transaction(read_only=True) as connection:
        parameters = {"terms": tsvector(["noise", *["wort"] * count]), "term": quoted("wort"), "steps": STEPS}
        assert (await connection.execute(query, parameters)).scalar_one() == min(count, 255)
