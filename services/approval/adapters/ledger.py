"""What the approval service reads of the effect ledger."""

from __future__ import annotations

from placet.messaging.reading import EventReader


class StreamEffectLedger:
    """Implements `EffectLedger` on the EFFECTS stream."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    async def claimed(self, tenant: str, key: str) -> bool:
        events = await self._reader.entity(tenant, "tool-executor", key)
        return any(event.name == "claimed" and event.verified for event in events)
