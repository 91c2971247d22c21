"""Step 2: the same question in two languages, answered from the policy in force."""

from __future__ import annotations

import re

from placet.cli.demo.report import Report
from placet.cli.demo.world import World, mentions
from placet.client.models import Chat

QUESTIONS = ("上海住宿上限是多少？", "What is the nightly lodging limit in Shanghai?")
IN_FORCE = "doc-travel-v2"
ARCHIVED = "doc-travel-v1"


async def show(world: World, report: Report) -> None:
    report.step("Step 2: Alice asks for the lodging limit, in Chinese and in English")
    for question in QUESTIONS:
        chat = await world["alice"].runs.chat(question)
        report.say(f"{question} → {chat.answer}")
        _check_answer(question, chat, report)
        await _check_citations(world, chat, report)


def _check_answer(question: str, chat: Chat, report: Report) -> None:
    report.equal("the run ends with success", chat.finish_reason, "success")
    report.holds("the answer says 650", mentions(chat.answer, "650"), expected="650", got=chat.answer)
    report.holds(
        "the archived 600 is nowhere",
        not any(mentions(text, "600") for text in (chat.answer, *(c.snippet for c in chat.citations))),
        expected="no 600",
        got=chat.model_dump_json(),
    )
    report.holds(
        "the answer is in the question's language",
        _chinese(chat.answer or "") == _chinese(question),
        expected="Chinese" if _chinese(question) else "English",
        got=chat.answer,
    )


async def _check_citations(world: World, chat: Chat, report: Report) -> None:
    cited = {citation.document_id for citation in chat.citations}
    report.holds(f"it cites {IN_FORCE}", IN_FORCE in cited, expected=IN_FORCE, got=sorted(cited))
    report.holds(f"it does not cite {ARCHIVED}", ARCHIVED not in cited, expected=f"no {ARCHIVED}", got=sorted(cited))
    for citation in chat.citations:
        if citation.document_id != IN_FORCE:
            continue
        source = await world["alice"].documents.source(citation.document_id, citation.version)
        where = f"page {citation.page}" if citation.page is not None else f"section {citation.section!r}"
        report.holds(
            f"the citation {citation.chunk_id} resolves: {where}, and its source opens",
            citation.chunk_id.startswith(f"{IN_FORCE}:v{citation.version}:") and b"650" in source,
            expected="an id of that version, and its original with 650 in it",
            got=citation,
        )


def _chinese(text: str) -> bool:
    """Mostly Chinese, by counting characters against words: names and numbers are the same in both."""
    return len(re.findall(r"[\u4e00-\u9fff]", text)) > len(re.findall(r"[A-Za-z]{2,}", text))
