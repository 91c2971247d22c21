"""What the stand-ins of the services behind the gateway share: they check every grant and remember what they got."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from placet.contracts import execution
from placet.identity.grants import Grant, GrantVerifier
from placet.messaging.connection import Bus
from placet.messaging.rpc import Call, RpcServer


@dataclass(frozen=True, slots=True)
class Asked:
    """One command as a service got it."""

    name: str
    command: Any
    grant: Grant
    request_id: str


@dataclass(slots=True)
class Service:
    """Checks every grant and remembers what it was asked."""

    owner: str
    bus: Bus
    grants: GrantVerifier
    asked: list[Asked] = field(default_factory=list)
    server: RpcServer | None = None

    async def start(self, handlers: dict[str, Callable[[Grant, Any], Awaitable[BaseModel]]]) -> None:
        self.server = RpcServer(self.bus, self.owner, {name: self._checked(name, do) for name, do in handlers.items()})
        await self.server.start()

    async def stop(self) -> None:
        if self.server:
            await self.server.stop()

    def _checked(
        self, name: str, do: Callable[[Grant, Any], Awaitable[BaseModel]]
    ) -> Callable[[Call, Any], Awaitable[BaseModel]]:
        async def handle(call: Call, command: Any) -> BaseModel:
            grant = self.grants.verify(command.grant, call.tenant)
            self.asked.append(Asked(name, command, grant, call.context.request_id))
            return await do(grant, command)

        return handle

    def last(self, name: str) -> Asked:
        return [one for one in self.asked if one.name == name][-1]

    def count(self, name: str) -> int:
        return sum(one.name == name for one in self.asked)


def citation(chunk_id: str) -> execution.Citation:
    document = chunk_id.partition(":")[0]
    return execution.Citation(
        chunk_id=chunk_id,
        document_id=document,
        title="Travel",
        version=2,
        snippet="650 per night",
        href=f"/api/documents/{document}/source?version=2",
    )
