"""`create_publish_proposal` and `apply_publish_decision` over the demo world's documents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from pack_world import ALICE, CAROL, GLOBEX_ALICE, PackWorld, outcome, pack_world

from placet.knowledge.models import Acl, NewVersion
from placet.toolkit import Actor, HandOver, RollbackPlan, ToolResult

SEARCH, SOURCE = "search_knowledge", "get_document_source"
PROPOSE, APPLY = "create_publish_proposal", "apply_publish_decision"


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world(documents=True) as opened:
        yield opened


async def found(world: PackWorld, who: Actor, query: str, k: int = 8) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await world.run(who, SEARCH, query=query, k=k))["items"]
    return items


async def draft(world: PackWorld, name: str, body: str = "# Bikes\n\nBikes are free.\n") -> None:
    """A new document of base kb-policies, or the next version of it."""
    store = world.rig.knowledge()
    new = NewVersion(
        tenant="acme",
        document_id=name,
        base_id="kb-policies",
        title="Bikes",
        filename=f"{name}.md",
        data=body.encode(),
        created_by="carol",
        authors=("carol",),
        acl=Acl(),
    )
    await store.ingest(new)


async def hand_over(world: PackWorld, document_id: str) -> dict[str, Any]:
    result = await world.run(CAROL, PROPOSE, document_id=document_id)
    assert isinstance(result, HandOver)
    assert result.tool == APPLY
    return result.args


@pytest.mark.spec("A11", "T8")
async def test_publish_proposal_hands_over_the_newest_draft(world: PackWorld) -> None:
    await draft(world, "doc-handed")
    assert await hand_over(world, "doc-handed") == {"document_id": "doc-handed", "version": 1, "lock_version": 1}


@pytest.mark.spec("A11")
async def test_publish_proposal_without_a_draft_is_a_conflict(world: PackWorld) -> None:
    assert await outcome(world.run(CAROL, PROPOSE, document_id="doc-travel-v2")) == "conflict"
    assert await outcome(world.run(CAROL, PROPOSE, document_id="doc-travel-v1")) == "conflict"
    assert await outcome(world.run(CAROL, PROPOSE, document_id="doc-layoff-plan")) == "not_found"


@pytest.mark.spec("A11", "A1", "T8")
async def test_publish_preview_shows_version_and_text_before_and_after(world: PackWorld) -> None:
    await draft(world, "doc-previewed", "# Bikes\n\nBikes are free.\n\nLocks are yours.\n")
    args = await hand_over(world, "doc-previewed")
    await world.run(CAROL, APPLY, world.key(), **args)
    await draft(world, "doc-previewed", "# Bikes\n\nBikes cost CNY 30.\n\nLocks are yours.\n")
    args = await hand_over(world, "doc-previewed")
    preview = await world.preview(CAROL, APPLY, **args)
    changes = {change.field: (change.before, change.after) for change in preview.changes}
    assert changes["published_version"] == (1, 2)
    assert "-Bikes are free." in changes["text"][1]
    assert "+Bikes cost CNY 30." in changes["text"][1]
    assert "Bikes" in preview.summary
    assert preview.touched == ("doc-previewed",)
    back = {"document_id": "doc-previewed", "version": 1, "lock_version": args["lock_version"] + 1}
    assert preview.rollback == RollbackPlan(APPLY, back)


@pytest.mark.spec("A11", "T8")
async def test_publish_makes_the_next_search_answer_from_it(world: PackWorld) -> None:
    assert not [item for item in await found(world, ALICE, "远程办公补贴") if item["document_id"] == "doc-remote-work"]
    args, key = await hand_over(world, "doc-remote-work"), world.key()
    result = ToolResult(await world.run(CAROL, APPLY, key, **args))
    assert result.data["previous_version"] is None
    assert await world.verify(CAROL, APPLY, key, result, **args)
    assert (await found(world, ALICE, "远程办公补贴"))[0]["document_id"] == "doc-remote-work"


@pytest.mark.spec("A11", "T8", "A8")
async def test_publish_after_the_document_changed_is_a_conflict_and_publishes_nothing(world: PackWorld) -> None:
    await draft(world, "doc-moved")
    args = await hand_over(world, "doc-moved")
    await draft(world, "doc-moved", "# Bikes\n\nBikes are gone.\n")
    assert await outcome(world.validate(CAROL, APPLY, **args)) == "conflict"
    assert await outcome(world.run(CAROL, APPLY, world.key(), **args)) == "conflict"
    assert await outcome(world.run(ALICE, SOURCE, document_id="doc-moved")) == "not_found"


@pytest.mark.spec("A11", "T8", "A8")
async def test_publish_at_an_old_lock_version_is_a_conflict_and_publishes_nothing(world: PackWorld) -> None:
    await draft(world, "doc-locked")
    await world.run(CAROL, APPLY, world.key(), **await hand_over(world, "doc-locked"))
    await draft(world, "doc-locked", "# Bikes\n\nBikes are gone.\n")
    args = {**await hand_over(world, "doc-locked"), "lock_version": 1}
    assert await outcome(world.validate(CAROL, APPLY, **args)) == "conflict"
    assert await outcome(world.run(CAROL, APPLY, world.key(), **args)) == "conflict"
    assert (await world.run(ALICE, SOURCE, document_id="doc-locked"))["version"] == 1


@pytest.mark.spec("A11")
@pytest.mark.parametrize("who", [ALICE, replace(CAROL, active=False), GLOBEX_ALICE])
async def test_publish_by_somebody_who_cannot_see_the_draft_is_not_found(world: PackWorld, who: Actor) -> None:
    await draft(world, "doc-unseen")
    args = {"document_id": "doc-unseen", "version": 1, "lock_version": 1}
    for call in (
        world.resource(who, APPLY, **args),
        world.validate(who, APPLY, **args),
        world.run(who, APPLY, world.key(), **args),
    ):
        assert await outcome(call) == "not_found"


@pytest.mark.spec("G8", "W9")
async def test_publish_one_key_from_five_callers_publishes_once(world: PackWorld) -> None:
    await draft(world, "doc-once")
    args, key = await hand_over(world, "doc-once"), world.key()
    results = await asyncio.gather(*(world.run(CAROL, APPLY, key, **args) for _ in range(5)))
    assert all(result == results[0] for result in results)
    assert results[0]["lock_version"] == args["lock_version"] + 1
    looked_up = await world.lookup(CAROL, APPLY, key, **args)
    assert looked_up is not None
    assert looked_up.data == results[0]
    assert await world.lookup(CAROL, APPLY, "never-used", **args) is None


@pytest.mark.spec("A11")
async def test_publish_two_keys_at_once_only_one_wins(world: PackWorld) -> None:
    await draft(world, "doc-raced")
    args = await hand_over(world, "doc-raced")
    ends = Counter(await asyncio.gather(*(outcome(world.run(CAROL, APPLY, world.key(), **args)) for _ in range(4))))
    assert ends == {"ok": 1, "conflict": 3}


@pytest.mark.spec("A9")
async def test_publish_rollback_plan_carried_out_brings_the_former_version_back(world: PackWorld) -> None:
    await draft(world, "doc-undone")
    await world.run(CAROL, APPLY, world.key(), **await hand_over(world, "doc-undone"))
    await draft(world, "doc-undone", "# Bikes\n\nBikes cost CNY 90.\n")
    args, key = await hand_over(world, "doc-undone"), world.key()
    result = ToolResult(await world.run(CAROL, APPLY, key, **args))
    spec = world.tools[APPLY]
    assert spec.hooks.compensate is not None
    plan = await spec.hooks.compensate(world.context(CAROL, key), spec.args.model_validate(args), result)
    assert plan is not None
    await world.validate(CAROL, plan.tool, **plan.arguments)
    undo = world.key()
    undone = ToolResult(await world.run(CAROL, plan.tool, undo, **plan.arguments))
    assert await world.verify(CAROL, APPLY, undo, undone, **plan.arguments)
    assert (await world.run(ALICE, SOURCE, document_id="doc-undone"))["version"] == 1


@pytest.mark.spec("A9")
async def test_publish_verify_sees_a_document_that_shows_something_else(world: PackWorld) -> None:
    await draft(world, "doc-tampered")
    args, key = await hand_over(world, "doc-tampered"), world.key()
    result = ToolResult(await world.run(CAROL, APPLY, key, **args))
    assert await world.verify(CAROL, APPLY, key, result, **args)
    assert not await world.verify(CAROL, APPLY, "never-used", result, **args)
    await world.sql("UPDATE knowledge.documents SET published_version = NULL WHERE document_id = 'doc-tampered'")
    assert not await world.verify(CAROL, APPLY, key, result, **args)
