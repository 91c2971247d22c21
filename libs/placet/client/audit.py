"""The audit record, for auditors."""

from __future__ import annotations

from collections.abc import AsyncIterator

from placet.client.paging import pages
from placet.client.transport import Transport
from placet.contracts.approvals import AuditEntry


class Audit:
    """`client.audit`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def events(
        self,
        *,
        after: int = 0,
        type_: str | None = None,
        actor: str | None = None,
        run_id: str | None = None,
        proposal_id: str | None = None,
        request_id: str | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """Records after stream sequence `after`, oldest first, until the end of what is stored now."""
        filters = {
            "after": after,
            "type": type_,
            "actor": actor,
            "run_id": run_id,
            "proposal_id": proposal_id,
            "request_id": request_id,
        }
        return pages(self._transport, "/api/audit/events", AuditEntry, filters, cursor="after")
