"""A change of the embedding model, in the background: the old model serves until the new one has every chunk.

What is done is what has a vector, so a worker that dies at any instruction loses one batch of work and nothing else:
the next one takes up what is missing. A lease on the model's row keeps replicas from doing the same batches; should two
work at once after all, a vector is written once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from placet.contracts.errors import PlacetError
from placet.knowledge.embedders import NO_MODEL
from placet.knowledge.ports import Database, Embedder
from placet.knowledge.vectors import literal

BATCH = 32  # chunks between two commits; at most this much is done again after a crash
DROPPED = 2_000  # vectors of a retired model at a time
LEASE_S = 120
START_S = 5.0  # a process that starts has more urgent things to do
IDLE_S = 30.0
PAUSE_S = 0.05  # between batches: searching comes first

_log = logging.getLogger(__name__)

# Asked for at the start of a process. The first model ever serves at once; a model that comes back is built again.
_ASK_FOR = text("""
INSERT INTO knowledge.embedding_models (model, status)
VALUES (:model, CASE WHEN EXISTS (SELECT FROM knowledge.embedding_models WHERE status = 'serving')
                     THEN 'building' ELSE 'serving' END)
ON CONFLICT (model) DO UPDATE SET status = 'building', since = now() WHERE embedding_models.status = 'retired'
""")

_LEASE = text(f"""
UPDATE knowledge.embedding_models SET worker = :worker, leased_until = now() + interval '{LEASE_S} seconds'
WHERE model = :model AND status <> 'retired' AND (worker = :worker OR leased_until < now())
RETURNING status
""")  # noqa: S608 (constants only)

# Row-level security shows bodies to who may read them, and to nobody else. Embedding reads all of them, so it has a
# door of its own, which opens to a role that only this transaction takes on and to the holder of the lease.
_TEXTS = text("SELECT tenant, chunk_id, document_id, plan, searched FROM knowledge.to_embed(:model, :worker, :most)")
_AS_EMBEDDER = {"role": "placet_embedder"}

_INCOMPLETE = text("""
SELECT EXISTS (
    SELECT FROM knowledge.chunk_terms t
    WHERE NOT EXISTS (SELECT FROM knowledge.chunk_vectors v
                      WHERE v.tenant = t.tenant AND v.model = :model AND v.chunk_id = t.chunk_id))
""")

# Publishing, changing who may read and reading anew lock the document, so that scope and visibility are copied as they
# will stay. A chunk that has been read anew meanwhile (`plan`) waits for the next batch.
_LOCK = text("""
SELECT 1 FROM knowledge.documents d
JOIN unnest(CAST(:tenants AS text[]), CAST(:documents AS text[])) AS wanted (tenant, document_id)
  USING (tenant, document_id)
ORDER BY d.tenant, d.document_id FOR SHARE OF d
""")
_ADD = text("""
INSERT INTO knowledge.chunk_vectors (tenant, model, chunk_id, document_id, version, scope_key, published, embedding)
SELECT t.tenant, :model, t.chunk_id, t.document_id, t.version, t.scope_key, t.published, CAST(:embedding AS vector)
FROM knowledge.chunk_terms t JOIN knowledge.versions v USING (tenant, document_id, version)
WHERE t.tenant = :tenant AND t.chunk_id = :chunk_id AND v.plan IS NOT DISTINCT FROM CAST(:plan AS text)
ON CONFLICT (tenant, model, chunk_id) DO NOTHING
""")

_RETIRE = text("""
UPDATE knowledge.embedding_models SET status = 'retired', since = now() WHERE status <> 'retired' AND model <> :model
""")
_SERVE = text("""
UPDATE knowledge.embedding_models SET status = 'serving', since = now() WHERE model = :model AND status = 'building'
""")
_DROP = text("SELECT knowledge.drop_retired(:most)")


@dataclass(frozen=True, slots=True)
class Reembedding:
    """Brings every chunk into the space of `embedder`, then lets search use it. `worker` names this process."""

    database: Database
    embedder: Embedder
    worker: str

    async def run(self) -> None:
        """Until cancelled. A database or a model that is away is waited for."""
        if self.embedder.model == NO_MODEL:
            return
        await asyncio.sleep(START_S)
        asked = False
        while True:
            try:
                if not asked:
                    await self.ask_for()
                    asked = True
                worked = await self.step()
            except PlacetError as error:
                _log.warning("embedding waits: %s", error)
                worked = False
            await asyncio.sleep(PAUSE_S if worked else IDLE_S)

    async def ask_for(self) -> None:
        """Register the model: it serves if none does, else it is built."""
        async with self.database.transaction() as connection:
            await connection.execute(_ASK_FOR, {"model": self.embedder.model})

    async def step(self) -> bool:
        """One batch of what is missing, else the switch, else one batch of clearing away; false when all is done."""
        model = {"model": self.embedder.model}
        async with self.database.transaction() as connection:
            status = (await connection.execute(_LEASE, model | {"worker": self.worker})).scalar_one_or_none()
        missing = await self._texts() if status else []
        if missing:
            await self._embed(missing)
            return True
        if status == "building":
            return await self._switch()
        async with self.database.transaction() as connection:
            return bool((await connection.execute(_DROP, {"most": DROPPED})).scalar_one())

    async def _texts(self) -> Sequence[Any]:
        values = {"model": self.embedder.model, "worker": self.worker, "most": BATCH}
        async with self.database.transaction(local=_AS_EMBEDDER, read_only=True) as connection:
            return (await connection.execute(_TEXTS, values)).all()

    async def _embed(self, missing: Sequence[Any]) -> None:
        """The slow part outside any transaction; then the whole batch or nothing of it."""
        vectors = await self.embedder.embed([row.searched for row in missing])
        added = [
            {
                "model": self.embedder.model,
                "tenant": row.tenant,
                "chunk_id": row.chunk_id,
                "plan": row.plan,
                "embedding": literal(vector),
            }
            for row, vector in zip(missing, vectors, strict=True)
        ]
        documents = {"tenants": [row.tenant for row in missing], "documents": [row.document_id for row in missing]}
        async with self.database.transaction() as connection:
            await connection.execute(_LOCK, documents)
            await connection.execute(_ADD, added)

    async def _switch(self) -> bool:
        """Serve, unless a chunk came in meanwhile. Searches that have begun end with the old vectors."""
        async with self.database.transaction() as connection:
            if (await connection.execute(_INCOMPLETE, {"model": self.embedder.model})).scalar_one():
                return True
            await connection.execute(_RETIRE, {"model": self.embedder.model})
            await connection.execute(_SERVE, {"model": self.embedder.model})
        _log.info("search now uses the embedding model %s", self.embedder.model)
        return True
