"""Whether a run has ended: its own last event says so."""

from __future__ import annotations

from placet.contracts import subjects
from placet.messaging.reading import EventReader

_LAST = "run-completed"


class StreamRunEnds:
    """Implements `RunEnds` on the RUNS stream."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    async def ended(self, tenant: str, run_id: str) -> bool:
        try:
            subject = subjects.event(tenant, "agent", _LAST, run_id)
        except subjects.BadSubjectError:
            return False
        return bool(await self._reader.last_of_each([subject], 1))
