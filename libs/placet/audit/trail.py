"""One way to write audit records: the request id and the actor come from the context, never from the caller."""

from __future__ import annotations

from typing import Any, Protocol

from placet.contracts import subjects
from placet.contracts.audit import AuditRecord
from placet.contracts.digests import derived_id
from placet.observability import metrics
from placet.observability.context import current


class AuditSink(Protocol):
    """Stores a record; raises `PlacetError(dependency_unavailable)` when it could not."""

    async def write(
        self, tenant: str, name: str, entity: str, record: AuditRecord, *, once: str | None = None
    ) -> None: ...


def entity_of(record: AuditRecord) -> str:
    """Records of one run lie under the run's id, so that its whole story is one filter; others under their own."""
    entity = record.run_id or record.proposal_id or record.call_id or derived_id("req", record.request_id)
    try:
        return subjects.token(entity)
    except subjects.BadSubjectError:
        # An id that nobody of ours made, named by a caller: recorded like any other, under an id made from it.
        return derived_id("odd", entity)


class AuditTrail:
    """The audit trail of one service."""

    def __init__(self, sink: AuditSink, service: str) -> None:
        self._sink = sink
        self._service = service

    async def record(
        self, tenant: str, name: str, *, action: str, outcome: str, once: str | None = None, **fields: Any
    ) -> None:
        """Store one record before the caller goes on. `fields` are those of `AuditRecord`.

        A reaction that may be repeated names its record with `once`: a repetition is stored a single time.
        """
        context = current()
        fields.setdefault("actor", context.actor)
        fields.setdefault("request_id", context.request_id)
        record = AuditRecord(service=self._service, action=action, outcome=outcome, **fields)
        await self._sink.write(tenant, name, entity_of(record), record, once=once)

    async def security_event(self, tenant: str, kind: str, **fields: Any) -> None:
        """Something that should not happen in honest use: counted, so that it can be alerted on."""
        metrics.SECURITY_EVENTS.labels(kind).inc()
        await self.record(tenant, "security-event", action=kind, outcome="refused", **fields)

    async def bad_message(self, kind: str, subject: str) -> None:
        """A message without a valid signature, or no event at all: the alarm of every queue."""
        parts = subject.split(".")
        tenant = parts[1] if len(parts) > 1 else "unknown"
        await self.security_event(tenant, kind, note=subject, actor=None)
