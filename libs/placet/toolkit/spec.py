"""`ToolSpec`: one typed declaration plus a handler and its hooks (spec: T1, W2, G10)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import rfc8785
from pydantic import BaseModel

from placet.contracts.tools import IDENTITY_FIELDS, Annotations, Effect, RetryClass, Risk, Sensitivity, ToolDescriptor
from placet.toolkit.context import ToolContext
from placet.toolkit.results import HandOver, Preview, ResourceView, RollbackPlan, ToolResult, Verification

Handler = Callable[[ToolContext, Any], Awaitable[ToolResult | HandOver]]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Optional hooks; `args` is always the validated instance of the tool's argument model.

    `resource` raises `not_found` for absent and for invisible alike. `validate` raises `PlacetError` for a broken
    business rule. `lookup` answers whether the key already took effect, and with what result.

    `rehearse` belongs to a tool that undoes another: asked before that effect is proposed, it raises `PlacetError` when
    the undo could not be run afterwards (`validate` cannot tell: what is to be undone is not there yet). `release` is
    called, once or more, when a key has turned out not to have taken effect and never will: what the handler has
    reserved for it is let go. `confirm` is called, once or more, when a person has said that a key took effect of which
    the tool itself could not tell: what is reserved for it is done.
    """

    resource: Callable[[ToolContext, Any], Awaitable[ResourceView]] | None = None
    validate: Callable[[ToolContext, Any, ResourceView | None], Awaitable[None]] | None = None
    preview: Callable[[ToolContext, Any, ResourceView | None], Awaitable[Preview]] | None = None
    verify: Callable[[ToolContext, Any, ToolResult], Awaitable[Verification]] | None = None
    lookup: Callable[[ToolContext, Any], Awaitable[ToolResult | None]] | None = None
    compensate: Callable[[ToolContext, Any, ToolResult], Awaitable[RollbackPlan | None]] | None = None
    rehearse: Callable[[ToolContext, Any, ResourceView | None], Awaitable[None]] | None = None
    release: Callable[[ToolContext, Any], Awaitable[None]] | None = None
    confirm: Callable[[ToolContext, Any], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool. `args` and `result` are pydantic models; unknown arguments are rejected by the executor.

    Raises `ValueError` at declaration for combinations that could not be governed.
    """

    name: str
    title: str
    description: str
    args: type[BaseModel]
    result: type[BaseModel]
    handler: Handler
    sensitivity: Sensitivity
    effect: Effect = Effect.NONE
    risk: Risk = Risk.LOW
    version: str = "1"
    timeout_s: float = 10.0
    retry: RetryClass = RetryClass.SAFE
    needs_idempotency_key: bool = False
    undo_tool: str | None = None
    open_world: bool = False
    hooks: Hooks = field(default_factory=Hooks)
    _schema_hash: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.args.model_config.get("extra") != "forbid":
            raise ValueError(f"{self.name}: the argument model must forbid unknown fields")
        if reserved := IDENTITY_FIELDS & {name.lower() for name in self.args.model_fields}:
            raise ValueError(f"{self.name}: who acts is not an argument: {', '.join(sorted(reserved))}")
        writes = self.sensitivity is Sensitivity.WRITE
        if writes != (self.effect is not Effect.NONE):
            raise ValueError(f"{self.name}: a write has an effect, a read has none")
        if writes and not self.needs_idempotency_key:
            raise ValueError(f"{self.name}: a write needs an idempotency key")
        if writes and self.retry is RetryClass.SAFE:
            raise ValueError(f"{self.name}: a write is not safe to repeat blindly")
        if self.retry is RetryClass.KEYED and self.hooks.lookup is None:
            raise ValueError(f"{self.name}: a call repeated by key needs a lookup of that key")
        if not 0 < self.timeout_s < math.inf:
            raise ValueError(f"{self.name}: a tool has a timeout")

    @property
    def writes(self) -> bool:
        return self.sensitivity is Sensitivity.WRITE

    def schema_hash(self) -> str:
        """sha256 over name, version and both schemas (RFC 8785): part of what an approver signs.

        Computed once: making a JSON schema costs a millisecond, more than the rest of a call together.
        """
        if not self._schema_hash:
            document: dict[str, Any] = {
                "name": self.name,
                "version": self.version,
                "input": self.args.model_json_schema(),
                "output": self.result.model_json_schema(),
            }
            self._schema_hash.append("sha256:" + hashlib.sha256(rfc8785.dumps(document)).hexdigest())
        return self._schema_hash[0]

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(
            name=self.name,
            title=self.title,
            description=self.description,
            version=self.version,
            sensitivity=self.sensitivity,
            effect=self.effect,
            risk=self.risk,
            timeout_s=self.timeout_s,
            retry=self.retry,
            needs_idempotency_key=self.needs_idempotency_key,
            undo_tool=self.undo_tool,
            annotations=Annotations(
                title=self.title,
                readOnlyHint=not self.writes,
                destructiveHint=self.effect is Effect.IRREVERSIBLE,
                idempotentHint=self.needs_idempotency_key or not self.writes,
                openWorldHint=self.open_world,
            ),
            input_schema=self.args.model_json_schema(),
            output_schema=self.result.model_json_schema(),
        )
