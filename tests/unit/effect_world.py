"""A ledger in memory and a provider that may die, lie low or lose its answer at any step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from placet.contracts.envelope import Event, now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.tools import Effect as EffectKind
from placet.contracts.tools import RetryClass, Sensitivity
from placet.toolkit import Actor, Hooks, RollbackPlan, ToolContext, ToolResult, ToolSpec, Verification
from services.tool_executor.domain.ledger import Entry, advance, fold
from services.tool_executor.handlers.effects import Effect
from services.tool_executor.ports import LedgerRaceError

TENANT, KEY = "acme", "eff-1"


class Killed(BaseException):
    """The process ends here: nothing may catch it."""


class MemoryLedger:
    """Implements `EffectLedger`. `die` says where the next append ends its process: before or after storing."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[int, str, Event]]] = {}
        self.die: dict[str, str] = {}
        self._seq = 0

    async def load(self, tenant: str, key: str) -> Entry:
        return self.entry(key)

    def entry(self, key: str) -> Entry:
        return fold((seq, event) for seq, _, event in self.events.get(key, []))

    async def append(self, tenant: str, key: str, name: str, event: Event, entry: Entry) -> Entry:
        await asyncio.sleep(0)
        point = self.die.get(name)
        if point == "before":
            raise Killed(f"before {name}")
        history = self.events.setdefault(key, [])
        if (history[-1][0] if history else 0) != entry.last_seq:
            raise LedgerRaceError(key)
        self._seq += 1
        history.append((self._seq, name, event))
        if point == "after":
            raise Killed(f"after {name}")
        return advance(entry, self._seq, event)

    def names(self, key: str = KEY) -> list[str]:
        return [name for _, name, _ in self.events.get(key, [])]


class NoLimit:
    """Implements `TenantSpending`."""

    async def reserve(self, tenant: str, key: str, amount: float, limit: float) -> bool:
        return True

    async def release(self, tenant: str, key: str) -> None:
        return None

    def keep(self, tenant: str, key: str) -> None:
        return None


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")

    amount: int = 1


class Result(BaseModel):
    done: bool


@dataclass(slots=True)
class Provider:
    """Takes effect each time it is called: nothing but the executor keeps it from doing so twice.

    `behave` is asked at every step (`call`, `took`, `lookup`, `verify`) and may raise.
    """

    behave: Callable[[str], None] = lambda step: None
    effects: int = 0
    calls: int = 0
    # What the last lookup answered; None when the provider has taken effect since, or was never asked.
    told_absent: bool = False
    called_blindly: bool = False
    reads_back: bool = True
    log: list[str] = field(default_factory=list)

    async def handle(self, context: ToolContext, args: Args) -> ToolResult:
        await asyncio.sleep(0)
        self.log.append("call")
        self.called_blindly |= self.calls > 0 and not self.told_absent
        self.calls += 1
        self.behave("call")
        self.effects += 1
        self.told_absent = False
        await asyncio.sleep(0)
        self.behave("took")
        return ToolResult({"done": True})

    async def lookup(self, context: ToolContext, args: Args) -> ToolResult | None:
        await asyncio.sleep(0)
        self.log.append("lookup")
        self.behave("lookup")
        self.told_absent = self.effects == 0
        return ToolResult({"done": True}) if self.effects else None

    async def verify(self, context: ToolContext, args: Args, result: ToolResult) -> Verification:
        self.behave("verify")
        return Verification(ok=self.reads_back, observed={"done": False})

    async def compensate(self, context: ToolContext, args: Args, result: ToolResult) -> RollbackPlan | None:
        return RollbackPlan("undo", {"amount": args.amount})

    async def confirm(self, context: ToolContext, args: Args) -> None:
        self.log.append("confirm")

    def spec(self, retry: RetryClass = RetryClass.KEYED, *, lookup: bool = True, timeout_s: float = 5.0) -> ToolSpec:
        return ToolSpec(
            name="pay",
            title="Pay",
            description="Pays.",
            args=Args,
            result=Result,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=EffectKind.IRREVERSIBLE,
            needs_idempotency_key=True,
            retry=retry,
            timeout_s=timeout_s,
            hooks=Hooks(
                lookup=self.lookup if lookup else None,
                verify=self.verify,
                compensate=self.compensate,
                confirm=self.confirm,
            ),
        )


def effect(spec: ToolSpec, *, proposal_id: str | None = "prop-1") -> Effect:
    actor = Actor(TENANT, "alice", True, frozenset(), frozenset(), 0)
    context = ToolContext(actor=actor, call_id="call-1", request_id="req-1", now=now(), idempotency_key=KEY)
    return Effect(KEY, spec, context, Args(), {"amount": 1}, "sha256:1", "alice", proposal_id)


def unavailable() -> PlacetError:
    return PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "as asked")
