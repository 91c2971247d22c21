"""The directory in its key-value bucket: one entry per person, read from the leader at every decision (I1)."""

from __future__ import annotations

from pydantic import ValidationError

from placet.contracts import subjects
from placet.contracts.directory import Person, PersonChange
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.kv import KeyConflictError, KeyValue

_ATTEMPTS = 5


def _key(tenant: str, person_id: str) -> str:
    return f"{subjects.token(tenant)}.{subjects.token(person_id)}"


class KvDirectory:
    """Implements `placet.identity.directory.Directory`."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def find(self, tenant: str, person_id: str) -> Person | None:
        """None for nobody. Raises `PlacetError(dependency_unavailable)` for a damaged entry: no facts, no rights."""
        try:
            entry = await self._bucket.get(_key(tenant, person_id))
        except subjects.BadSubjectError:
            return None
        if entry is None:
            return None
        try:
            return Person.model_validate_json(entry.value)
        except ValidationError as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "A directory entry cannot be read.") from error

    async def put(self, person: Person) -> None:
        """Store an entry whatever was there (seeding)."""
        await self._bucket.put(_key(person.tenant, person.id), person.model_dump_json().encode())

    async def change(self, tenant: str, person_id: str, change: PersonChange) -> Person:
        """Apply `change` to the entry of now, or make a new one; by compare-and-set, so that no change is lost.

        Raises `PlacetError(conflict)` after five lost races.
        """
        key = _key(tenant, person_id)
        for _ in range(_ATTEMPTS):
            entry = await self._bucket.get(key)
            old = Person.model_validate_json(entry.value) if entry else Person(id=person_id, tenant=tenant)
            new = old.model_copy(update=change.model_dump())
            data = new.model_dump_json().encode()
            try:
                if entry:
                    await self._bucket.update(key, data, entry.revision)
                else:
                    await self._bucket.create(key, data)
            except KeyConflictError:
                continue
            return new
        raise PlacetError(ErrorCode.CONFLICT, "The entry was changed by others at the same time.")
