"""What a tenant has spent on models today, in the RUN_CONTROL bucket: `<tenant>.cost.<day>`, gone with its age.

Money already spent is counted whatever becomes of the run: a node that runs again after a crash has spent twice.
"""

from __future__ import annotations

import json

from placet.contracts import subjects
from placet.contracts.envelope import now
from placet.contracts.errors import PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue
from placet.observability import logs

log = logs.get(__name__)

_RACES = 32


class KvTenantCosts:
    """Implements `TenantCosts`."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def spent(self, tenant: str) -> float:
        entry = await self._bucket.get(_key(tenant))
        return _read(entry.value) if entry else 0.0

    async def add(self, tenant: str, cost: float) -> None:
        def more(value: bytes | None) -> bytes:
            return json.dumps({"cost": cost + (_read(value) if value is not None else 0.0)}).encode()

        try:
            await self._bucket.change(_key(tenant), more, attempts=_RACES)
        except KeyConflictError:
            log.warning("a cost was not counted: too many at once", cost=cost)
        except PlacetError as error:
            log.warning("a cost was not counted", code=error.code, cost=cost)


def _read(value: bytes) -> float:
    return float(json.loads(value)["cost"])


def _key(tenant: str) -> str:
    return f"{subjects.token(tenant)}.cost.{now():%Y%m%d}"
