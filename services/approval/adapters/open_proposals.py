"""Which proposals are open, in their own bucket: a key for each action, and places for each requester and tool.

A key is not given back: it names its holder, whose events tell whether that is still open, and whoever wants it next
takes it over. It lives a little longer than the proposal it stands for, so that one whose process has died ends, too.
"""

from __future__ import annotations

from collections import OrderedDict

from placet.messaging.kv import KeyConflictError, KeyValue
from services.approval.ports import Claim, StaleError

_ATTEMPTS = 5
_REMEMBERED = 8192


class KvOpenProposals:
    """Implements `OpenProposals`. What was seen of each key last is remembered, bounded in number."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket
        self._seen: OrderedDict[str, Claim] = OrderedDict()

    async def claim(self, key: str, proposal_id: str, ttl_s: int, *, glance: bool = False) -> Claim:
        seen = self._seen.get(key) if glance else None
        if seen and seen.holder != proposal_id:  # what one holds oneself is not taken on trust
            return seen
        for _ in range(_ATTEMPTS):
            try:
                revision = await self._bucket.create(key, proposal_id.encode(), ttl_s=ttl_s)
                return self._saw(key, Claim(proposal_id, revision))
            except KeyConflictError:
                entry = await self._bucket.get(key)
            if entry:
                return self._saw(key, Claim(entry.value.decode(), entry.revision))
        raise StaleError(key)

    async def take_over(self, key: str, proposal_id: str, ttl_s: int, revision: int) -> Claim | None:
        try:
            revision = await self._bucket.update(key, proposal_id.encode(), revision, ttl_s=ttl_s)
        except KeyConflictError:
            self._seen.pop(key, None)
            return None
        return self._saw(key, Claim(proposal_id, revision))

    async def release(self, key: str, revision: int, ttl_s: int) -> None:
        self._seen.pop(key, None)
        try:
            await self._bucket.delete(key, revision, ttl_s=ttl_s)
        except KeyConflictError:
            return  # somebody else's by now, or gone

    def _saw(self, key: str, claim: Claim) -> Claim:
        self._seen[key] = claim
        self._seen.move_to_end(key)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return claim
