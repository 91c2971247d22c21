"""The directory's entries, for those whose duty it is; effective for everybody's very next call (I1, R4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placet.audit.trail import AuditTrail
from placet.contracts.directory import Person, PersonChange
from placet.contracts.errors import ErrorCode, not_found
from placet.contracts.execution import GetPerson, PersonReply, PutPerson
from placet.identity.grants import Purpose
from placet.messaging.rpc import Call
from services.tool_executor.handlers.identity import Caller, Callers


class DirectoryWriter(Protocol):
    async def change(self, tenant: str, person_id: str, change: PersonChange) -> Person: ...


@dataclass(frozen=True, slots=True)
class People:
    callers: Callers
    writer: DirectoryWriter
    audit: AuditTrail

    async def on_get(self, call: Call, command: GetPerson) -> PersonReply:
        caller = await self.callers.of(command.grant, call.tenant, purpose=Purpose.REQUEST)
        await self._require(caller, "directory.read", command.user_id)
        person = await self.callers.directory.find(call.tenant, command.user_id)
        if person is None:
            raise not_found()
        return PersonReply(person=person)

    async def on_put(self, call: Call, command: PutPerson) -> PersonReply:
        caller = await self.callers.of(command.grant, call.tenant, purpose=Purpose.REQUEST)
        await self._require(caller, "directory.write", command.user_id)
        person = await self.writer.change(call.tenant, command.user_id, command.change)
        await self.audit.record(
            call.tenant,
            "directory-changed",
            action="directory.write",
            outcome="ok",
            actor=caller.person.id,
            roles=caller.person.roles,
            resource={"type": "person", "id": person.id},
            result=command.change.model_dump(mode="json"),
        )
        return PersonReply(person=person)

    async def _require(self, caller: Caller, duty: str, user_id: str) -> None:
        answer = await self.callers.duty(caller, duty)
        if answer.allowed:
            return
        await self.audit.record(
            caller.grant.tenant,
            "access-denied",
            action=duty,
            outcome="refused",
            actor=caller.person.id,
            roles=caller.person.roles,
            code=ErrorCode.PERMISSION_DENIED.value,
            resource={"type": "person", "id": user_id},
            policy_revision=answer.policy_revision,
        )
        # Whether there is such a person is not for others to know: the record says more than the answer.
        raise not_found()
