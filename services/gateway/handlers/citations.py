"""What a person may be shown of a run now (I1, K3): asked anew whenever something is shown, never remembered.

The gateway knows nothing of rights. The executor says, by the directory and the policy of this moment, whether the
person is still somebody here and which of the cited passages that person may read. An answer that cites a passage
which is not among them is withheld as a whole: its text may quote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from placet.contracts.errors import not_found
from placet.contracts.execution import Citations, ResolveCitations
from services.gateway.domain.runs import RunSeen
from services.gateway.domain.withholding import instead_of, with_data
from services.gateway.handlers.caller import Caller

_MOST = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """`citations` as they may be shown now, in their order; `complete` if none had to be left out."""

    active: bool
    citations: list[dict[str, Any]]
    complete: bool

    def answer(self, text: str) -> str:
        return text if self.active and self.complete else instead_of(text)


async def shown(caller: Caller, citations: Iterable[dict[str, Any]] = ()) -> Shown:
    """Raises `PlacetError` when it cannot be told: then nothing is shown."""
    ids = [str(one["chunk_id"]) for one in citations if isinstance(one, dict) and "chunk_id" in one]
    wanted = tuple(dict.fromkeys(ids))[:_MOST]
    command = ResolveCitations(grant=caller.grant(), chunk_ids=wanted)
    resolved = await caller.ask("tool-executor", "resolve-citations", command, Citations)
    by_id = {one.chunk_id: one.model_dump(mode="json") for one in resolved.items}
    found = [by_id[chunk_id] for chunk_id in wanted if chunk_id in by_id]
    return Shown(resolved.active, found, len(found) == len(set(ids)))


async def require_standing(caller: Caller) -> None:
    """Raises the one `not_found` for a person who is not, or no longer, somebody here."""
    if not (await shown(caller)).active:
        raise not_found()


def as_shown(seen: RunSeen, allowed: Shown) -> RunSeen:
    """The last event of a run as its reader may see it now."""
    answer = str(seen.event.data.get("answer") or "")
    return with_data(seen, answer=allowed.answer(answer), citations=allowed.citations)
