"""The people of the demo world, each with a client of their own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from placet.cli import places
from placet.client import ApiError, PlacetClient, ReadyLine
from placet.client.models import Chat, RunEvent

# Whose tokens every demo needs; more people only add checks.
NEEDED = ("alice", "bob", "carol", "dave", "erin", "mike", "auditor")
# The one reader of the layoff plan: not among the tokens of the READY line, minted where the demo owns the issuer.
READER = "frank"


@dataclass(frozen=True, slots=True)
class World:
    """`people`: name -> client."""

    url: str
    people: Mapping[str, PlacetClient]

    def __getitem__(self, name: str) -> PlacetClient:
        return self.people[name]


@asynccontextmanager
async def opened(url: str, tokens: Mapping[str, str]) -> AsyncIterator[World]:
    """Raises `ValueError` when somebody who is needed has no token."""
    missing = [name for name in NEEDED if name not in tokens]
    if missing:
        raise ValueError(f"no token for {', '.join(missing)}")
    async with AsyncExitStack() as stack:
        people = {
            name: await stack.enter_async_context(PlacetClient(url, token)) for name, token in tokens.items() if token
        }
        yield World(url, people)


def read_tokens(file: Path) -> dict[str, str]:
    """Tokens from a file with a READY line in it, or from a JSON object of name -> token.

    Raises `ValueError` for anything else.
    """
    text = file.read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("READY "):
            return ReadyLine.parse(line).tokens
    document = json.loads(text)
    tokens = document.get("tokens", document) if isinstance(document, dict) else None
    if not isinstance(tokens, dict):
        raise ValueError(f"{file} holds neither a READY line nor a JSON object of tokens")
    return {str(name): str(token) for name, token in tokens.items()}


def canary() -> str:
    """The marker in the layoff plan, which must appear for nobody but its readers.

    Raises `ValueError` when the plan holds none.
    """
    plan = (places.seeds_dir() / "knowledge" / "acme" / "layoff-plan.md").read_text(encoding="utf-8")
    found = re.search(r"CANARY-[\w-]+", plan)
    if found is None:
        raise ValueError("the layoff plan holds no canary")
    return found.group()


def mentions(text: str | None, number: str) -> bool:
    """Whether a number stands in the text by itself (600 does not stand in 1600)."""
    return re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d)", text or "") is not None


async def everything_seen(client: PlacetClient, chat: Chat) -> str:
    """All that a run has shown to its owner, as text: the answer, the citations, every event."""
    events = [event async for event in client.runs.follow(chat.run_id)]
    return chat.model_dump_json() + "".join(event.model_dump_json() for event in events)


def gapless(events: list[RunEvent]) -> bool:
    return [event.seq for event in events] == list(range(1, len(events) + 1))


async def refusal(call: Awaitable[object]) -> ApiError | None:
    """The refusal that a call ended with, or None when it was served."""
    try:
        await call
    except ApiError as error:
        return error
    return None
