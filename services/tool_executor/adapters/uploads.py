"""Uploads: their notes in the database, their parts in the object store, the job that reads them on the bus."""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts import policy
from placet.contracts.documents import PART_BYTES
from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge.intake import Intake, original_key
from placet.knowledge.models import DocumentState, Place, Upload
from placet.knowledge.ports import StagedStore
from services.tool_executor.adapters.documents import reading_scope


@dataclass(frozen=True, slots=True)
class StoredUploads:
    """Implements `Uploads`."""

    intake: Intake
    originals: StagedStore

    async def place(
        self, tenant: str, scope: policy.KnowledgeScope, base_id: str, document_id: str | None
    ) -> Place | None:
        return await self.intake.place(reading_scope(tenant, scope), base_id, document_id)

    async def begin(self, upload: Upload) -> Upload:
        return await self.intake.begin(upload)

    async def find(self, tenant: str, upload_id: str, actor: str) -> Upload:
        return await self.intake.upload(tenant, upload_id, actor)

    async def add_part(self, upload: Upload, index: int, data: bytes) -> None:
        place = await self.originals.stage(upload.upload_id, index, data)
        await self.intake.add_part(upload, index, place)

    async def finish(self, upload: Upload) -> DocumentState:
        return await self.intake.finish(upload.tenant, upload.upload_id, upload.actor, self._adopt)

    async def _adopt(self, upload: Upload) -> None:
        try:
            await self.originals.adopt(
                upload.upload_id,
                original_key(upload.tenant, upload.sha256),
                upload.parts,
                part=PART_BYTES,
                size=upload.size,
                sha256=upload.sha256,
            )
        except ValueError as error:
            message = "What arrived is not the file that was announced."
            raise PlacetError(ErrorCode.INVALID_REQUEST, message) from error
