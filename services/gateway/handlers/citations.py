"""Citations are authorized again whenever they are shown (K3): what may not be read today is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from placet.contracts.execution import Citations, ResolveCitations
from services.gateway.domain.runs import RunSeen
from services.gateway.handlers.caller import Caller

_MOST = 100


async def shown(caller: Caller, citations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """These citations as they may be shown now, in their order. Raises `PlacetError` when that cannot be told."""
    wanted = tuple(str(one["chunk_id"]) for one in citations if isinstance(one, dict) and "chunk_id" in one)[:_MOST]
    if not wanted:
        return []
    command = ResolveCitations(grant=caller.grant(), chunk_ids=wanted)
    resolved = await caller.ask("tool-executor", "resolve-citations", command, Citations)
    by_id = {one.chunk_id: one.model_dump(mode="json") for one in resolved.items}
    return [by_id[chunk_id] for chunk_id in wanted if chunk_id in by_id]


async def with_shown_citations(caller: Caller, seen: RunSeen) -> RunSeen:
    """The event as this caller may see it now."""
    if not seen.event.data.get("citations"):
        return seen
    data = {**seen.event.data, "citations": await shown(caller, seen.event.data["citations"])}
    return replace(seen, event=seen.event.model_copy(update={"data": data}))
