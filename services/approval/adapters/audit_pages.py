"""Pages of the audit trail, read from its stream."""

from __future__ import annotations

from pydantic import ValidationError

from placet.contracts import subjects
from placet.contracts.approvals import AuditEntry, AuditPage, QueryAudit
from placet.contracts.audit import AuditRecord
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.reading import EventReader, Stored

_SCAN = 512
# A narrow filter over a long trail is answered in slices: each call reads at most this many records.
_MAX_SCANNED = 20 * _SCAN


class StreamAuditPages:
    """Filters by type and run in the subject itself, by the rest while reading."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    async def page(self, tenant: str, query: QueryAudit) -> AuditPage:
        """Raises `PlacetError(invalid_request)` for a filter that cannot be one."""
        try:
            filter_ = subjects.event_filter(
                subjects.token(tenant), "audit", query.type or subjects.ANY, query.run_id or subjects.ANY
            )
        except subjects.BadSubjectError as error:
            raise PlacetError(ErrorCode.INVALID_REQUEST, "`type` or `run_id` is not a valid name.") from error
        after, scanned = query.after, 0
        found: list[AuditEntry] = []
        while scanned < _MAX_SCANNED:
            stored = await self._reader.page(filter_, after=after, limit=_SCAN)
            for event in stored:
                after = event.seq
                entry = _entry(event)
                if entry and _matches(entry.record, query):
                    found.append(entry)
                    if len(found) == query.limit:
                        return AuditPage(items=tuple(found), next=str(after))
            if len(stored) < _SCAN:
                return AuditPage(items=tuple(found), next=None)
            scanned += len(stored)
        return AuditPage(items=tuple(found), next=str(after))


def _entry(event: Stored) -> AuditEntry | None:
    try:
        record = AuditRecord.model_validate(event.envelope.data)
    except ValidationError:
        return None
    return AuditEntry(seq=event.seq, type=event.name, time=event.envelope.time.isoformat(), record=record)


def _matches(record: AuditRecord, query: QueryAudit) -> bool:
    wanted = (
        (query.actor, record.actor),
        (query.proposal_id, record.proposal_id),
        (query.request_id, record.request_id),
    )
    return all(value is None or value == found for value, found in wanted)
