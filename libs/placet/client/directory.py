"""People, for directory administrators."""

from __future__ import annotations

from typing import Any

from placet.client.transport import Transport
from placet.contracts.directory import Person, PersonChange


class DirectoryAdmin:
    """`client.directory`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, user_id: str) -> Person:
        return _person((await self._transport.get(f"/api/directory/users/{user_id}")).body)

    async def put(self, user_id: str, change: PersonChange) -> Person:
        """Set what a person may be; it counts from the very next decision on."""
        answer = await self._transport.put(f"/api/directory/users/{user_id}", change.model_dump(mode="json"))
        return _person(answer.body)


def _person(body: dict[str, Any]) -> Person:
    # Later servers may add fields, and `Person` rejects what it does not know.
    return Person.model_validate({name: body[name] for name in Person.model_fields if name in body})
