"""Tools that misbehave in every way a real one can, on a small store of their own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.tools import Effect, RetryClass, Sensitivity
from placet.toolkit import (
    Hooks,
    PackEnvironment,
    Preview,
    ResourceView,
    RollbackPlan,
    ToolContext,
    ToolResult,
    ToolSpec,
    Verification,
)


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mode: str = "ok"


class Result(BaseModel):
    done: bool


class OddPack:
    """`odd_read` and the writes behave as `mode` says. `effects` counts what really took effect, by key."""

    name = "odd"
    effects: ClassVar[Counter[str]] = Counter()
    results: ClassVar[dict[str, dict[str, object]]] = {}

    def tools(self) -> Sequence[ToolSpec]:
        return [
            ToolSpec(
                name="odd_read",
                title="Odd read",
                description="A read that may fail.",
                args=Args,
                result=Result,
                handler=self.read,
                sensitivity=Sensitivity.READ,
                timeout_s=0.2,
            ),
            self._write("odd_write", RetryClass.KEYED, lookup=True),
            self._write("odd_blind_write", RetryClass.NEVER, lookup=False),
            self._write("odd_gated_write", RetryClass.KEYED, lookup=True),
        ]

    def _write(self, name: str, retry: RetryClass, *, lookup: bool) -> ToolSpec:
        hooks = Hooks(
            preview=self.preview,
            lookup=self.lookup if lookup else None,
            verify=self.verify,
            compensate=self.compensate,
            rehearse=self.rehearse,
        )
        return ToolSpec(
            name=name,
            title=name,
            description="A write that may end badly.",
            args=Args,
            result=Result,
            handler=self.write,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.REVERSIBLE,
            needs_idempotency_key=True,
            retry=retry,
            undo_tool="odd_write",
            timeout_s=0.3,
            hooks=hooks,
        )

    async def read(self, context: ToolContext, args: Args) -> ToolResult:
        if args.mode == "slow":
            await asyncio.sleep(5)
        if args.mode == "crash":
            raise RuntimeError("secret-in-exception")
        if args.mode in {code.value for code in ErrorCode}:
            raise PlacetError(ErrorCode(args.mode), "as asked")
        return ToolResult({"done": True})

    async def write(self, context: ToolContext, args: Args) -> ToolResult:
        key = str(context.idempotency_key)
        if args.mode == "fails":
            raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "as asked")
        if args.mode == "down" and self.effects[f"tries:{key}"] == 0:
            self.effects[f"tries:{key}"] += 1
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "as asked")
        self.effects[key] += 1
        self.results[key] = {"done": True}
        if args.mode == "lost":
            raise PlacetError(ErrorCode.OUTCOME_UNKNOWN, "as asked")
        if args.mode == "slow":
            await asyncio.sleep(5)
        return ToolResult({"done": True})

    async def lookup(self, context: ToolContext, args: Args) -> ToolResult | None:
        found = self.results.get(str(context.idempotency_key))
        return ToolResult(dict(found)) if found else None

    async def verify(self, context: ToolContext, args: Args, result: ToolResult) -> Verification:
        return Verification(ok=not args.mode.startswith("unverified"), observed={"done": False})

    async def preview(self, context: ToolContext, args: Args, resource: ResourceView | None) -> Preview:
        """What undoes it, by mode: another call of the same kind, one that nobody may make, one that is not there."""
        plans = {
            "undoable": RollbackPlan("odd_write", {"mode": "ok"}),
            "undone_by_nobody": RollbackPlan("run_readonly_sql", {"sql": "SELECT 1"}),
            "undone_by_nothing": RollbackPlan("no_such_tool", {}),
            "undone_badly": RollbackPlan("odd_write", {"mood": "ok"}),
            "undone_in_vain": RollbackPlan("odd_write", {"mode": "hopeless"}),
            "unverified": RollbackPlan("odd_write", {"mode": "ok"}),
        }
        return Preview(summary="odd", rollback=plans.get(args.mode))

    async def rehearse(self, context: ToolContext, args: Args, resource: ResourceView | None) -> None:
        if args.mode == "hopeless":
            raise PlacetError(ErrorCode.CONFLICT, "It could not be undone.")

    async def compensate(self, context: ToolContext, args: Args, result: ToolResult) -> RollbackPlan | None:
        return RollbackPlan("no_such_tool" if args.mode == "unverified_stuck" else "odd_write", {"mode": "ok"})

    async def open(self, environment: PackEnvironment) -> None:
        self.effects.clear()

    async def ready(self) -> bool:
        return True

    async def close(self) -> None:
        return None
