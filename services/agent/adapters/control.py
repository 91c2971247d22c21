"""What must outlive a drive, in the RUN_CONTROL bucket, which only this service may read.

`<tenant>.<run>` holds the run with its question and its grant: a run that waits for a person is resumed by an event
that carries neither. The grant names one person and one run and ends by itself; it is dropped with the run's end.
`<tenant>.<run>.cancel` holds who asked to cancel, `<tenant>.<run>.failures` how often driving it has failed, and
`<tenant>.<run>.parked` what a waiting run rests on: ids alone, `<tenant>.<run>.waited` how long it has waited for parts
that were away.
"""

from __future__ import annotations

import json
from typing import Any

from placet.contracts import subjects
from placet.messaging.kv import KeyConflictError, KeyValue
from services.agent.domain.patience import NOT_WAITED, Waited
from services.agent.domain.resume import Parked
from services.agent.domain.run import Run

_KEPT = ("owner", "conversation_id", "question", "grant", "request_id")


class KvRunControl:
    """Implements `RunControl`."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def remember(self, run: Run) -> None:
        document = {name: getattr(run, name) for name in _KEPT}
        await self._bucket.put(_key(run.tenant, run.run_id), json.dumps(document, ensure_ascii=False).encode())

    async def recall(self, tenant: str, run_id: str) -> Run | None:
        document = await self._read(_key(tenant, run_id))
        if document is None:
            return None
        return Run(tenant=tenant, run_id=run_id, **{name: str(document[name]) for name in _KEPT})

    async def forget(self, tenant: str, run_id: str) -> None:
        for key, _ in await self._bucket.scan(tenant, run_id, subjects.ANY):
            await self._bucket.delete(key)
        if await self._bucket.get(_key(tenant, run_id)):
            await self._bucket.delete(_key(tenant, run_id))

    async def park(self, tenant: str, parked: Parked) -> None:
        document = {"owner": parked.owner, "route": parked.route, "rests": dict(parked.rests)}
        await self._bucket.put(_key(tenant, parked.run_id, "parked"), json.dumps(document).encode())

    async def parked(self, tenant: str) -> list[Parked]:
        found = await self._bucket.scan(tenant, subjects.ANY, "parked")
        return [_parked(key.split(".")[1], json.loads(entry.value)) for key, entry in found]

    async def request_cancel(self, tenant: str, run_id: str, by: str) -> None:
        await self._bucket.put(_key(tenant, run_id, "cancel"), json.dumps({"by": by}).encode())

    async def cancel_requested_by(self, tenant: str, run_id: str) -> str | None:
        document = await self._read(_key(tenant, run_id, "cancel"))
        return str(document["by"]) if document else None

    async def waited_of(self, tenant: str, run_id: str) -> Waited:
        found = await self._read(_key(tenant, run_id, "waited"))
        if found is None:
            return NOT_WAITED
        return Waited(int(found["tries"]), float(found["seconds"]), frozenset(found["unreached"]))

    async def keep_waited(self, tenant: str, run_id: str, waited: Waited) -> None:
        document = {"tries": waited.tries, "seconds": waited.seconds, "unreached": sorted(waited.unreached)}
        await self._bucket.put(_key(tenant, run_id, "waited"), json.dumps(document).encode())

    async def count_failure(self, tenant: str, run_id: str) -> int:
        key = _key(tenant, run_id, "failures")
        while True:
            entry = await self._bucket.get(key)
            count = int(json.loads(entry.value)["count"]) + 1 if entry else 1
            value = json.dumps({"count": count}).encode()
            try:
                if entry:
                    await self._bucket.update(key, value, entry.revision)
                else:
                    await self._bucket.create(key, value)
            except KeyConflictError:
                continue
            return count

    async def _read(self, key: str) -> dict[str, Any] | None:
        entry = await self._bucket.get(key)
        return dict(json.loads(entry.value)) if entry else None


def _parked(run_id: str, document: dict[str, Any]) -> Parked:
    rests = {proposal: tuple(chunks) for proposal, chunks in document["rests"].items()}
    return Parked(run_id, str(document["owner"]), str(document["route"]), rests)


def _key(tenant: str, run_id: str, part: str | None = None) -> str:
    base = f"{subjects.token(tenant)}.{subjects.token(run_id)}"
    return f"{base}.{part}" if part else base
