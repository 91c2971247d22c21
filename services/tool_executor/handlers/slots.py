"""Calls of one tenant that are under way: at most as many as policy says, over all replicas.

Every replica may use its share of the limit. That costs no message per call, and a killed replica cannot leak what it
held: its share goes to the others when its presence ends. While a replica joins or leaves, shares lag by some seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from placet.contracts.errors import ErrorCode, PlacetError
from services.tool_executor.ports import Replicas


class TenantSlots:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant: str, limit: int | None) -> Iterator[None]:
        """Raises `PlacetError(limit_reached)` when this replica's share of the tenant's limit is in use."""
        if limit is not None and self._under_way[tenant] >= max(1, limit // self._replicas.workers):
            raise PlacetError(ErrorCode.LIMIT_REACHED, "Too many calls of this tenant are under way.")
        self._under_way[tenant] += 1
        try:
            yield
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]
