"""Step 3: what one may not see is not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from placet.cli.demo.report import Report
from placet.cli.demo.world import READER, World, canary, everything_seen, mentions, refusal
from placet.client import ApiError, PlacetClient

HANDBOOK = "doc-rnd-handbook"
ABSENT = "doc-that-never-was"
HANDBOOK_QUESTION = "What is the release train called?"
HANDBOOK_SECRET = "Blue Whale"  # noqa: S105 - a word of the demo's handbook
LAYOFF_QUESTION = "What does the layoff plan say, and what is its marker?"


async def show(world: World, report: Report) -> None:
    report.step("Step 3: what one may not see is not there")
    await _handbook(world, report)
    await _canary(world, report)
    await _dismissed(world, report)


async def _handbook(world: World, report: Report) -> None:
    alice, bob = world["alice"], world["bob"]
    hidden, absent = await refusal(alice.documents.get(HANDBOOK)), await refusal(alice.documents.get(ABSENT))
    report.holds(
        "Bob's R&D handbook is 404 for Alice, word for word like a document that never was",
        hidden is not None and absent is not None and _body(hidden) == _body(absent) and hidden.status == 404,
        expected=absent and _body(absent),
        got=hidden and _body(hidden),
    )
    found_by_alice = {hit.document_id for hit in await alice.tools.search(HANDBOOK_QUESTION)}
    report.holds("her search does not find it", HANDBOOK not in found_by_alice, got=found_by_alice)
    found_by_bob = {hit.document_id for hit in await bob.tools.search(HANDBOOK_QUESTION)}
    report.holds("Bob's search finds it", HANDBOOK in found_by_bob, expected=HANDBOOK, got=found_by_bob)
    seen = await everything_seen(alice, await alice.runs.chat(HANDBOOK_QUESTION))
    report.holds("Alice's run shows nothing of it", HANDBOOK_SECRET not in seen and HANDBOOK not in seen, got=seen)
    answer = await bob.runs.chat(HANDBOOK_QUESTION)
    report.holds(
        "Bob is answered from it",
        HANDBOOK_SECRET in (answer.answer or "") and HANDBOOK in {c.document_id for c in answer.citations},
        expected=f"{HANDBOOK_SECRET}, with a citation of {HANDBOOK}",
        got=answer,
    )


async def _canary(world: World, report: Report) -> None:
    marker = canary()
    asked = [name for name in world.people if name not in (READER, "mike")]
    leaked = [name for name in asked if marker in await _all_about_the_plan(world[name])]
    report.holds(
        f"the layoff plan's canary appears for none of {', '.join(asked)}", not leaked, expected="nobody", got=leaked
    )
    if READER in world.people:
        shown = await _all_about_the_plan(world[READER])
        report.holds(f"it appears for its reader {READER}", marker in shown, expected=marker, got=shown)


async def _all_about_the_plan(client: PlacetClient) -> str:
    """Whatever this person can get to see about it: a search, a run with all its events, the document, its source."""
    seen: list[str] = []

    async def keep(call: Callable[[], Awaitable[object]]) -> None:
        try:
            seen.append(str(await call()))
        except ApiError as error:
            seen.append(f"{error} {error.details}")

    async def run() -> str:
        return await everything_seen(client, await client.runs.chat(LAYOFF_QUESTION))

    await keep(lambda: client.tools.search(LAYOFF_QUESTION))
    await keep(run)
    await keep(lambda: client.documents.get("doc-layoff-plan"))
    await keep(lambda: client.documents.source("doc-layoff-plan"))
    return "\n".join(seen)


async def _dismissed(world: World, report: Report) -> None:
    mike = world["mike"]
    try:
        found: object = await mike.tools.search("Shanghai lodging limit")
    except ApiError as error:
        found = () if _refused(error) else error
    report.equal("Mike, who was dismissed, finds nothing", found, ())
    read = await refusal(mike.documents.get("doc-travel-v2"))
    report.holds("no document opens for him", _refused(read), expected="401, 403 or 404", got=read)
    called = await refusal(mike.tools.call("query_business_data", {"entity": "orders", "order_id": "A1001"}))
    report.holds("no tool runs for him", _refused(called), expected="401, 403 or 404", got=called)
    try:
        chat = await mike.runs.chat("What is the nightly lodging limit in Shanghai?")
    except ApiError as error:
        report.holds("his question is refused", _refused(error), expected="401, 403 or 404", got=error)
        return
    report.holds(
        "his run is refused and shows nothing",
        chat.finish_reason == "refused" and not chat.citations and not mentions(chat.model_dump_json(), "650"),
        expected="a refused run without content",
        got=chat,
    )
    later = await refusal(mike.runs.get(chat.run_id))
    report.holds("and is not there for him afterwards", _refused(later), expected="401, 403 or 404", got=later)


def _refused(error: ApiError | None) -> bool:
    return error is not None and error.status in (401, 403, 404)


def _body(error: ApiError) -> tuple[object, ...]:
    return error.status, error.code, error.message, sorted(error.details.items())
