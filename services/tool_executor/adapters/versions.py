"""Reading versions into the index, and finding those that were forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.contracts.documents import VersionReceived
from placet.knowledge.errors import ParseFailure
from placet.knowledge.indexing import Indexing, Report, unfinished
from placet.knowledge.leftovers import Leftovers
from placet.knowledge.models import Reading

# Longer than the queue takes to bring a failed job again, and than an upload takes to say its event.
_QUIET_S = 150
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """Implements `Versions`."""

    indexing: Indexing
    leftovers: Leftovers

    async def read(self, tenant: str, document_id: str, version: int, report: Report) -> Reading:
        return await self.indexing.run(tenant, document_id, version, report)

    async def give_up(self, tenant: str, document_id: str, version: int) -> Reading:
        where = {"tenant": tenant, "document_id": document_id, "version": version}
        return await self.indexing.fail(where, ParseFailure.CRASHED, "The file could not be read.")

    async def forgotten(self) -> Sequence[tuple[str, VersionReceived]]:
        rows = await unfinished(self.indexing.database, _QUIET_S, _AT_ONCE)
        return [
            (row.tenant, VersionReceived(**{name: getattr(row, name) for name in VersionReceived.model_fields}))
            for row in rows
        ]

    async def sweep_uploads(self) -> None:
        await self.leftovers.sweep()
