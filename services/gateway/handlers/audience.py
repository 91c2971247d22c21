"""One person in front of one run's events: every event is shown only on a word about that person's rights of now."""

from __future__ import annotations

import asyncio
import time

from placet.contracts.errors import PlacetError, not_found
from placet.observability import logs
from services.gateway.domain.pacing import pauses
from services.gateway.domain.runs import DELTA, RunRecord, RunSeen
from services.gateway.domain.withholding import without_text
from services.gateway.handlers.caller import Caller
from services.gateway.handlers.citations import Shown, as_shown, shown

log = logs.get(__name__)

# Pieces of an answer come by the dozen: those of this time ride on one word. Everything else is asked for anew.
_DELTA_GRACE_S = 2.0
# How long an event is held back while nobody can tell, before the stream is cut (to be taken up again).
_PATIENCE_S = 20.0


class Audience:
    """`record` is what was stored of the run when the stream began: an answer that is there already tells what its
    pieces may quote, where they do not say so themselves."""

    def __init__(self, caller: Caller, record: RunRecord) -> None:
        self._caller = caller
        self._end: RunSeen | None = record.end
        self._evidence: set[str] = set(self._of_end())
        self._asked_at = float("-inf")
        self._allowed: Shown | None = None

    async def admitted(self) -> bool:
        """Before anything is sent: False when the person is known to be gone. While nobody can tell, events wait."""
        try:
            await self._ask()
        except PlacetError as error:
            if not error.retryable:
                return False
            log.warning("cannot tell a reader's rights yet", code=error.code.value)
        return True

    async def still_here(self) -> bool:
        """For a heartbeat, which shows nothing: False only when the person is known to be gone."""
        try:
            return (await shown(self._caller)).active
        except PlacetError as error:
            log.warning("cannot tell a reader's rights", code=error.code.value)
            return True

    async def view(self, seen: RunSeen) -> RunSeen:
        """The event as it may be shown. Raises `PlacetError` when the person is gone, or nobody can tell for long."""
        if seen.final:
            self._end = seen
        evidence = seen.evidence or self._of_end()
        known = self._evidence.issuperset(evidence)
        self._evidence.update(evidence)
        allowed, grace_s = self._allowed, _DELTA_GRACE_S if seen.name == DELTA else 0.0
        if allowed is None or seen.final or not known or self._asked_at < seen.arrived - grace_s:
            allowed = await self._ask_patiently()
        if seen.final:
            return as_shown(seen, allowed)
        return without_text(seen) if seen.name == DELTA and not allowed.covers(evidence) else seen

    def _of_end(self) -> tuple[str, ...]:
        return self._end.evidence if self._end else ()

    async def _ask_patiently(self) -> Shown:
        for pause_s in pauses(_PATIENCE_S):
            try:
                return await self._ask()
            except PlacetError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(pause_s)
        return await self._ask()

    async def _ask(self) -> Shown:
        asked_at = time.monotonic()
        cited = self._end.citations if self._end else ()
        allowed = await shown(self._caller, cited, sorted(self._evidence))
        if not allowed.active:
            raise not_found()
        self._asked_at, self._allowed = asked_at, allowed
        return allowed
