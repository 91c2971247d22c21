"""The effect ledger on the EFFECTS stream: signed appends by compare-and-set, verified reads."""

from __future__ import annotations

from placet.audit.trail import AuditTrail
from placet.contracts.envelope import Event
from placet.contracts.registry import effect_events
from placet.messaging.append import Appender, ConflictError, NewEvent
from placet.messaging.reading import EventReader
from services.tool_executor.domain.ledger import Entry, advance, fold
from services.tool_executor.ports import LedgerRaceError

OWNER = "tool-executor"
_MODELS = effect_events()


class StreamLedger:
    """Implements `EffectLedger`. Events that nobody of ours signed are left out, and alarmed."""

    def __init__(self, appender: Appender, reader: EventReader, audit: AuditTrail) -> None:
        self._appender = appender
        self._reader = reader
        self._audit = audit

    async def load(self, tenant: str, key: str) -> Entry:
        stored = await self._reader.entity(tenant, OWNER, key)
        for event in stored:
            if not event.verified:
                await self._audit.security_event(
                    tenant, "bad_signature", idempotency_key=key, note=f"{event.subject} at sequence {event.seq}"
                )
        return fold(
            (event.seq, _MODELS[event.name].model_validate(event.envelope.data))
            for event in stored
            if event.verified and event.name in _MODELS
        )

    async def append(self, tenant: str, key: str, name: str, event: Event, entry: Entry) -> Entry:
        try:
            done = await self._appender.append(tenant, NewEvent(name, key, event), entry.last_seq)
        except ConflictError as error:
            raise LedgerRaceError(key) from error
        return advance(entry, done.seq, event)
