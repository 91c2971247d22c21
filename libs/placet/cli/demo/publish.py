"""Step 5: a draft is published by decision; the next question is answered from it."""

from __future__ import annotations

import asyncio
import time

from placet.cli.demo.refund import NotShowableError
from placet.cli.demo.report import Report
from placet.cli.demo.world import World, mentions
from placet.client.models import Chat

DRAFT = "doc-remote-work"
QUESTION = "How much is the remote work allowance per month?"
FIGURE = "380"
INDEX_PATIENCE_S = 10.0


async def show(world: World, report: Report) -> None:
    """Raises `NotShowableError` when the draft has been published before."""
    report.step("Step 5: Carol publishes a draft, and the next question is answered from it")
    carol, alice = world["carol"], world["alice"]
    if (await carol.documents.get(DRAFT)).status != "draft":
        raise NotShowableError(f"{DRAFT} is no draft any more: this step needs a fresh demo world")
    before = await alice.runs.chat(QUESTION)
    report.holds("before, it is not answered from the draft", not _from_draft(before), got=before)

    proposal = await carol.documents.propose_publishing(DRAFT)
    report.equal("Carol's publish proposal waits", proposal.status, "pending")
    decided = await carol.documents.decide_publishing(proposal.proposal_id, approved=True)
    report.equal("she confirms it", (decided.status, decided.finish_reason), ("completed", "success"))
    report.equal("the document is published", (await carol.documents.get(DRAFT)).status, "published")

    after = await _ask_again(world)
    report.say(f"{QUESTION} → {after.answer}")
    report.holds(
        f"after, the answer says {FIGURE} and cites {DRAFT}",
        _from_draft(after) and mentions(after.answer, FIGURE) and after.finish_reason == "success",
        expected=f"{FIGURE}, with a citation of {DRAFT}",
        got=after,
    )


async def _ask_again(world: World) -> Chat:
    chat = await world["alice"].runs.chat(QUESTION)
    deadline = time.monotonic() + INDEX_PATIENCE_S
    while not _from_draft(chat) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        chat = await world["alice"].runs.chat(QUESTION)
    return chat


def _from_draft(chat: Chat) -> bool:
    return mentions(chat.answer, FIGURE) or DRAFT in {citation.document_id for citation in chat.citations}
