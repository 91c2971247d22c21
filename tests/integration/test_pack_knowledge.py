"""The knowledge tools over the demo world's documents: scope of the moment, sources, versions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pack_world import ALICE, BOB, CAROL, FRANK, GLOBEX_ALICE, MIKE, PackWorld, pack_world, policy_scope

from placet.contracts.errors import ErrorCode, PlacetError
from placet.packs.knowledge import KnowledgePack
from placet.toolkit import Actor, PackEnvironment, ToolResult

SEARCH, SOURCE, READ = "search_knowledge", "get_document_source", "read_document_version"
API_FIELDS = {"chunk_id", "document_id", "title", "version", "page", "section", "snippet", "score"}


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world(documents=True) as opened:
        yield opened


async def found(world: PackWorld, who: Actor, query: str, k: int = 8) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await world.run(who, SEARCH, query=query, k=k))["items"]
    return items


async def error_of(call: Any) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await call
    return caught.value


@pytest.mark.spec("K3")
@pytest.mark.parametrize("query", ["上海住宿上限是多少？", "What is the nightly lodging limit in Shanghai?"])
async def test_search_answers_from_the_published_version_with_the_api_fields(world: PackWorld, query: str) -> None:
    items = await found(world, ALICE, query)
    assert items[0]["document_id"] == "doc-travel-v2"
    assert "650" in items[0]["text"]
    assert items[0].keys() == API_FIELDS | {"text"}
    assert not [item for item in items if item["document_id"] == "doc-travel-v1"]


@pytest.mark.spec("K2", "R2")
async def test_search_shows_each_person_only_their_documents(world: PackWorld) -> None:
    query = "layoff plan, R&D handbook, travel policy 裁员 研发"
    seen = {who.id: {item["document_id"] for item in await found(world, who, query, 20)} for who in (ALICE, BOB, FRANK)}
    assert "doc-layoff-plan" in seen["frank"]
    assert "doc-layoff-plan" not in seen["alice"] | seen["bob"]
    assert "doc-rnd-handbook" in seen["bob"]
    assert "doc-rnd-handbook" not in seen["alice"]
    assert await found(world, MIKE, query, 20) == []


@pytest.mark.spec("I4")
async def test_search_tenants_with_the_same_document_ids_stay_apart(world: PackWorld) -> None:
    theirs = await found(world, GLOBEX_ALICE, "Shanghai lodging travel policy", 20)
    assert theirs
    assert all("Globex" in item["title"] for item in theirs)
    assert not [item for item in await found(world, ALICE, "Globex travel policy", 20) if "Globex" in item["title"]]


@pytest.mark.spec("A4", "K5")
async def test_search_evidence_names_authors_and_what_nobody_vouches_for(world: PackWorld) -> None:
    spec = world.tools[SEARCH]
    result = await spec.handler(
        world.context(ALICE), spec.args.model_validate({"query": "lamp supplier letter", "k": 20})
    )
    assert isinstance(result, ToolResult)
    evidence = {ref.document_id: ref for ref in result.evidence}
    assert [ref.chunk_id for ref in result.evidence] == [item["chunk_id"] for item in result.data["items"]]
    assert not evidence["doc-supplier-email"].trusted
    assert evidence["doc-supplier-email"].authors == ("external:lamp-works",)
    assert evidence["doc-refund-handbook"].trusted
    assert evidence["doc-refund-handbook"].authors == ("alice",)


@pytest.mark.spec("R4", "K2")
async def test_search_scope_is_asked_anew_at_every_call(world: PackWorld) -> None:
    rights = {"roles": ["employee", "rnd"]}
    asked: list[str] = []

    async def scope(who: Actor) -> dict[str, Any]:
        asked.append(who.id)
        answer = await policy_scope(who)
        return {**answer, "principals": {**answer["principals"], **rights}}

    pack = KnowledgePack()
    await pack.open(PackEnvironment(world.rig.url(), world.rig.originals, scope, {"embedder": "none"}))
    tool = next(tool for tool in pack.tools() if tool.name == SEARCH)
    call = (world.context(BOB), tool.args.model_validate({"query": "研发手册 R&D handbook"}))
    before = await tool.handler(*call)
    rights["roles"] = ["employee"]
    after = await tool.handler(*call)
    await pack.close()
    assert isinstance(before, ToolResult)
    assert isinstance(after, ToolResult)
    assert "doc-rnd-handbook" in {item["document_id"] for item in before.data["items"]}
    assert "doc-rnd-handbook" not in {item["document_id"] for item in after.data["items"]}
    assert asked == ["bob", "bob"]


def _answers() -> list[tuple[str, dict[str, Any]]]:
    good = {"tenant": "acme", "user": "alice", "roles": ["employee"], "teams": [], "clearance": 0}
    return [
        ("no answer", {}),
        ("policy down", {"visible": False, "code": "policy_unavailable"}),
        ("visible as text", {"visible": "true", "principals": good}),
        ("no principals", {"visible": True}),
        ("null principals", {"visible": True, "principals": None}),
        ("missing roles", {"visible": True, "principals": {k: v for k, v in good.items() if k != "roles"}}),
        ("somebody else", {"visible": True, "principals": {**good, "user": "frank"}}),
        ("other tenant", {"visible": True, "principals": {**good, "tenant": "globex"}}),
    ]


@pytest.mark.spec("K2", "I4")
@pytest.mark.parametrize("answer", [answer for _, answer in _answers()], ids=[name for name, _ in _answers()])
async def test_search_unusable_scope_fails_closed(world: PackWorld, answer: dict[str, Any]) -> None:
    async def scope(_: Actor) -> dict[str, Any]:
        return answer

    pack = KnowledgePack()
    await pack.open(PackEnvironment(world.rig.url(), world.rig.originals, scope, {"embedder": "none"}))
    tool = next(tool for tool in pack.tools() if tool.name == SEARCH)
    error = await error_of(tool.handler(world.context(ALICE), tool.args.model_validate({"query": "travel"})))
    await pack.close()
    assert error.code is ErrorCode.POLICY_UNAVAILABLE


@pytest.mark.spec("W10", "K3")
async def test_source_is_a_link_to_the_published_file(world: PackWorld) -> None:
    source = await world.run(ALICE, SOURCE, document_id="doc-expense-policy")
    assert source["href"] == "/api/documents/doc-expense-policy/source?version=1"
    assert (source["media_type"], source["filename"]) == ("application/pdf", "expense-policy.pdf")
    assert source["size"] > 0
    assert len(source["sha256"]) == 64


@pytest.mark.spec("I3", "T5")
@pytest.mark.parametrize("tool", [SOURCE, READ])
@pytest.mark.parametrize(
    ("who", "args"),
    [
        (ALICE, {"document_id": "doc-layoff-plan"}),  # not hers
        (ALICE, {"document_id": "doc-rnd-handbook"}),
        (ALICE, {"document_id": "doc-nowhere"}),  # nobody's
        (ALICE, {"document_id": "doc-remote-work"}),  # a draft
        (ALICE, {"document_id": "doc-travel-v1"}),  # archived
        (ALICE, {"document_id": "doc-travel-v1", "version": 1}),
        (ALICE, {"document_id": "doc-travel-v2", "version": 99}),
        (CAROL, {"document_id": "doc-layoff-plan"}),  # the role is not enough: the base must let her in
        (CAROL, {"document_id": "doc-rnd-handbook"}),
        (MIKE, {"document_id": "doc-travel-v2"}),
    ],
)
async def test_document_not_to_be_seen_is_not_found_without_a_hint(
    world: PackWorld, tool: str, who: Actor, args: dict[str, Any]
) -> None:
    errors = [await error_of(world.resource(who, tool, **args)), await error_of(world.run(who, tool, **args))]
    absent = await error_of(world.run(ALICE, tool, document_id="doc-absent"))
    assert {(error.code, error.message, str(error.details)) for error in [*errors, absent]} == {
        (ErrorCode.NOT_FOUND, absent.message, "{}")
    }


@pytest.mark.spec("K4", "T5")
async def test_read_version_admin_reads_archived_and_draft_text(world: PackWorld) -> None:
    archived = await world.run(CAROL, READ, document_id="doc-travel-v1", version=1)
    assert archived.keys() == {"document_id", "version", "status", "content"}
    assert (archived["status"], archived["version"]) == ("archived", 1)
    assert "600" in archived["content"]
    unpublished = await world.run(CAROL, READ, document_id="doc-remote-work")
    assert unpublished["status"] == "draft"


@pytest.mark.spec("K4")
async def test_read_version_resource_says_readable_and_its_base(world: PackWorld) -> None:
    view = await world.resource(CAROL, READ, document_id="doc-travel-v1", version=1)
    assert (view.type, view.id, view.tenant) == ("document", "doc-travel-v1", "acme")
    assert (view.facts["readable"], view.facts["base"]) == (True, "kb-policies")


@pytest.mark.spec("K4", "A4")
async def test_read_version_evidence_is_the_version_itself(world: PackWorld) -> None:
    spec = world.tools[READ]
    args = spec.args.model_validate({"document_id": "doc-travel-v1"})
    result = await spec.handler(world.context(CAROL), args)
    assert isinstance(result, ToolResult)
    assert [(ref.document_id, ref.version, ref.authors, ref.trusted) for ref in result.evidence] == [
        ("doc-travel-v1", 1, ("carol",), True)
    ]
