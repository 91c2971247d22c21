"""Uploads that nobody finished, and the notes of those that were."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from placet.knowledge.intake import original_key
from placet.knowledge.ports import Database, StagedStore

_OLDEST = text("""
SELECT tenant, upload_id, sha256, version FROM knowledge.uploads
WHERE created_at < now() - make_interval(secs => CASE WHEN version IS NULL THEN :unfinished_s ELSE :finished_s END)
ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED
""")

_FORGET = text("DELETE FROM knowledge.uploads WHERE tenant = :tenant AND upload_id = :upload_id")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Ages in seconds. A finished upload is remembered for as long as its sender may ask again how it ended."""

    database: Database
    originals: StagedStore
    unfinished_s: int = 3_600
    finished_s: int = 90_000

    async def sweep(self, limit: int = 100) -> int:
        """Forget old uploads and let go of the parts of unfinished ones; returns how many.

        The upload is locked while its parts go, so it cannot be finished meanwhile.
        """
        for swept in range(limit):
            if not await self._sweep_one():
                return swept
        return limit

    async def _sweep_one(self) -> bool:
        ages = {"unfinished_s": self.unfinished_s, "finished_s": self.finished_s}
        async with self.database.transaction() as connection:
            row = (await connection.execute(_OLDEST, ages)).one_or_none()
            if row is None:
                return False
            if row.version is None:
                await self.originals.discard(row.upload_id, original_key(row.tenant, row.sha256))
            await connection.execute(_FORGET, {"tenant": row.tenant, "upload_id": row.upload_id})
        return True
