"""What a person may be shown of a run now (I1, K3): asked anew whenever something is shown, never remembered.

The gateway knows nothing of rights. The executor says, by the directory and the policy of this moment, whether the
person is still somebody here and which document versions that person may read. A text that was written from a version
which is not among them, whether it cites that version or not, is withheld as a whole: it may quote it. A version that
has been replaced meanwhile is read by those who may read archived versions (K4), and by nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from placet.contracts.errors import not_found
from placet.contracts.execution import Citations, ResolveCitations
from services.gateway.domain.runs import RunSeen
from services.gateway.domain.withholding import instead_of, with_data
from services.gateway.handlers.caller import Caller

_MOST_CITED, _MOST_EVIDENCE = 100, 1000


@dataclass(frozen=True, slots=True)
class Shown:
    """`citations` as they may be shown now, in their order; `readable` is what of the evidence may be read."""

    active: bool
    citations: list[dict[str, Any]]
    readable: frozenset[str]

    def covers(self, evidence: Iterable[str]) -> bool:
        """Whether a text that may quote this evidence may be shown."""
        return self.active and self.readable.issuperset(evidence)


async def shown(caller: Caller, citations: Sequence[str] = (), evidence: Iterable[str] = ()) -> Shown:
    """Raises `PlacetError` when it cannot be told: then nothing is shown."""
    wanted = tuple(citations)[:_MOST_CITED]
    command = ResolveCitations(grant=caller.grant(), chunk_ids=wanted, evidence=tuple(evidence)[:_MOST_EVIDENCE])
    resolved = await caller.ask("tool-executor", "resolve-citations", command, Citations)
    by_id = {one.chunk_id: one.model_dump(mode="json") for one in (*resolved.others, *resolved.items)}
    found = [by_id[chunk_id] for chunk_id in wanted if chunk_id in by_id]
    return Shown(resolved.active, found, frozenset(resolved.readable))


async def shown_of(caller: Caller, seen: RunSeen | None) -> Shown:
    """What may be shown of this event; without one, whether anything may."""
    return await shown(caller, seen.citations, seen.evidence) if seen else await shown(caller)


async def require_standing(caller: Caller) -> None:
    """Raises the one `not_found` for a person who is not, or no longer, somebody here."""
    if not (await shown(caller)).active:
        raise not_found()


def as_shown(seen: RunSeen, allowed: Shown) -> RunSeen:
    """The last event of a run as its reader may see it now."""
    answer = str(seen.event.data.get("answer") or "")
    told = answer if allowed.covers(seen.evidence) else instead_of(answer)
    return with_data(seen, answer=told, citations=allowed.citations)
