"""Which proposals are open, in their own bucket: a key for each action, and places for each requester and tool.

Every key lives a little longer than the proposal it stands for, so that one whose process has died is free again then.
"""

from __future__ import annotations

import zlib

from placet.contracts.proposals import Hold
from placet.messaging.kv import KeyConflictError, KeyValue
from services.approval.ports import Claim, StaleError

_ATTEMPTS = 5


class KvOpenProposals:
    """Implements `OpenProposals`."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def claim(self, key: str, proposal_id: str, ttl_s: int) -> Claim:
        for _ in range(_ATTEMPTS):
            try:
                return Claim(proposal_id, await self._bucket.create(key, proposal_id.encode(), ttl_s=ttl_s))
            except KeyConflictError:
                entry = await self._bucket.get(key)
            if entry:
                return Claim(entry.value.decode(), entry.revision)
        raise StaleError(key)

    async def take_over(self, key: str, proposal_id: str, ttl_s: int, revision: int) -> Claim | None:
        try:
            return Claim(proposal_id, await self._bucket.update(key, proposal_id.encode(), revision, ttl_s=ttl_s))
        except KeyConflictError:
            return None

    async def take_slot(self, group: str, limit: int, proposal_id: str, ttl_s: int) -> Hold | None:
        """Begins at a place that the id tells, so that the same proposal finds its own again."""
        first = zlib.crc32(proposal_id.encode())
        for step in range(limit):
            key = f"{group}.{(first + step) % limit}"
            claim = await self.claim(key, proposal_id, ttl_s)
            if claim.holder == proposal_id:
                return Hold(key=key, revision=claim.revision)
        return None

    async def release(self, holds: tuple[Hold, ...], ttl_s: int) -> None:
        for hold in holds:
            try:
                await self._bucket.delete(hold.key, hold.revision, ttl_s=ttl_s)
            except KeyConflictError:
                continue  # somebody else's by now, or gone
