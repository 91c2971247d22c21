"""The person behind an HTTP call, and the calls made in that person's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel
from pydantic.functional_validators import AfterValidator
from starlette.types import Scope

from placet.contracts.digests import derived_id
from placet.contracts.envelope import Command
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.identity.grants import Purpose
from placet.observability import logs
from placet.observability.context import new_id
from services.gateway.errors import unauthenticated
from services.gateway.handlers.exchange import exchange_of, ports_of
from services.gateway.ports import Ports

log = logs.get(__name__)

R = TypeVar("R", bound=BaseModel)

REQUEST_GRANT_S = 60
RUN_GRANT_S = 86_400
DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated person: who they are, never what they may."""

    tenant: str
    subject: str
    request_id: str
    ports: Ports
    seed: tuple[str, ...] | None = None

    def new_id(self, prefix: str) -> str:
        """A fresh id; with an idempotency key, the same one at each attempt."""
        return derived_id(prefix, *self.seed) if self.seed else new_id(prefix)

    def grant(self) -> str:
        """For one HTTP call."""
        return self.ports.mint.mint(
            tenant=self.tenant,
            actor=self.subject,
            purpose=Purpose.REQUEST,
            request_id=self.request_id,
            lifetime_s=REQUEST_GRANT_S,
        )

    def run_grant(self, run_id: str, lifetime_s: int = RUN_GRANT_S) -> str:
        """For one run: the only kind that the agent is given."""
        return self.ports.mint.mint(
            tenant=self.tenant,
            actor=self.subject,
            purpose=Purpose.RUN,
            request_id=self.request_id,
            lifetime_s=lifetime_s,
            run_id=run_id,
        )

    async def ask(
        self, owner: str, name: str, command: Command, reply: type[R], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> R:
        """Send a command in this person's name. Raises `PlacetError` with the callee's code."""
        try:
            return await self.ports.commands.call(owner, name, command, reply, tenant=self.tenant, timeout_s=timeout_s)
        except PlacetError as error:
            if error.code is ErrorCode.UNAUTHENTICATED:
                # Our grant, not the person's token: a wrong key pair, which logging in again would not mend.
                log.error("a service refused our grant", owner=owner, command=name)
                raise PlacetError(ErrorCode.INTERNAL, "A service refused the gateway's grant.") from error
            raise


def caller_of(scope: Scope) -> Caller:
    """Raises `PlacetError(unauthenticated)` before the token has been checked."""
    exchange = exchange_of(scope)
    principal = exchange.principal
    if principal is None:
        raise unauthenticated()
    return Caller(principal.tenant, principal.subject, exchange.request_id, ports_of(scope), exchange.seed)


async def _caller(request: Request) -> Caller:
    return caller_of(request.scope)


CallerDep = Annotated[Caller, Depends(_caller)]


def _id(pattern: re.Pattern[str]) -> AfterValidator:
    """An id that cannot exist is answered as one that does not, before it becomes part of a subject."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise not_found()
        return value

    return AfterValidator(check)


Id = Annotated[str, _id(re.compile(r"[A-Za-z0-9_\-=:]{1,128}"))]
PersonId = Annotated[str, _id(re.compile(r"[A-Za-z0-9_\-]{1,64}"))]
# For query parameters: databases refuse a NUL, and a person does not type one.
NO_NUL = r"^[^\x00]*$"
