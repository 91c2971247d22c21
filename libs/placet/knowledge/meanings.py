"""Vectors in every space that is searched, or prepared to be: who asks while the model changes finds what is new.

The own model has to answer. Another one that is away is left out: it may be away for good, which is why it is replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from placet.contracts.errors import PlacetError
from placet.knowledge.chunk_rows import Vectors
from placet.knowledge.ports import Database, Embedder

_log = logging.getLogger(__name__)

_IN_USE = text("SELECT model FROM knowledge.embedding_models WHERE status <> 'retired' AND model <> :own")

# The embedder of a model by its name, if there is one here.
OtherEmbedders = Callable[[str], Embedder | None]


def no_others(_: str) -> Embedder | None:
    """For a program that has its own model only."""
    return None


@dataclass(frozen=True, slots=True)
class Meanings:
    database: Database
    embedder: Embedder
    others: OtherEmbedders = no_others

    async def of(self, texts: Sequence[str]) -> Vectors:
        """By model, one vector per text. Raises PlacetError when the own model is away."""
        own = await self.embedder.embed(texts)
        if not own:
            return {}
        found = {self.embedder.model: own}
        for model in await self._others_in_use():
            other = self.others(model)
            try:
                vectors = [] if other is None else await other.embed(texts)
            except PlacetError as error:
                _log.warning("taken in without vectors of %s: %s", model, error)
                continue
            if vectors:
                found[model] = vectors
        return found

    async def _others_in_use(self) -> Sequence[str]:
        async with self.database.transaction(read_only=True) as connection:
            return (await connection.execute(_IN_USE, {"own": self.embedder.model})).scalars().all()
