"""Declarations of tools: what could not be governed cannot be declared (T1, W2, G10)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict

from placet.contracts.tools import IDENTITY_FIELDS, Effect, RetryClass, Risk, Sensitivity, ToolDescriptor
from placet.toolkit import Hooks, ToolContext, ToolResult, ToolSpec


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")

    order_id: str
    amount: int


class ArgsWithMore(Args):
    reason: str = ""


class Result(BaseModel):
    refund_id: str


async def _handle(_: ToolContext, args: Args) -> ToolResult:
    return ToolResult({"refund_id": args.order_id})


async def _lookup(_: ToolContext, args: Args) -> ToolResult | None:
    return None


def read(**changes: Any) -> ToolSpec:
    fields: dict[str, Any] = {
        "name": "look_at_order",
        "title": "Look at an order",
        "description": "Shows one order.",
        "args": Args,
        "result": Result,
        "handler": _handle,
        "sensitivity": Sensitivity.READ,
    }
    return ToolSpec(**(fields | changes))


def write(**changes: Any) -> ToolSpec:
    fields: dict[str, Any] = {
        "name": "refund",
        "sensitivity": Sensitivity.WRITE,
        "effect": Effect.IRREVERSIBLE,
        "risk": Risk.CRITICAL_FUNDS,
        "retry": RetryClass.KEYED,
        "needs_idempotency_key": True,
        "hooks": Hooks(lookup=_lookup),
    }
    return read(**(fields | changes))


@pytest.mark.spec("T1")
def test_declaration_that_can_be_governed_is_accepted() -> None:
    assert not read().writes
    assert write().writes
    assert not read(sensitivity=Sensitivity.SENSITIVE_READ).writes


@pytest.mark.spec("T1", "W2", "G10")
@pytest.mark.parametrize(
    ("declare", "changes", "complaint"),
    [
        (write, {"effect": Effect.NONE}, "a write has an effect"),
        (read, {"effect": Effect.REVERSIBLE}, "a read has none"),
        (read, {"sensitivity": Sensitivity.SENSITIVE_READ, "effect": Effect.VISIBLE_TO_OTHERS}, "a read has none"),
        (write, {"needs_idempotency_key": False}, "needs an idempotency key"),
        (write, {"retry": RetryClass.SAFE}, "not safe to repeat"),
        (write, {"hooks": Hooks()}, "needs a lookup"),
        (read, {"timeout_s": 0.0}, "timeout"),
        (read, {"timeout_s": -1.0}, "timeout"),
        (read, {"timeout_s": float("inf")}, "timeout"),
        (read, {"timeout_s": float("nan")}, "timeout"),
    ],
)
def test_declaration_that_cannot_be_governed_is_refused(declare: Any, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        declare(**changes)


@pytest.mark.spec("T1")
@pytest.mark.parametrize("extra", ["ignore", "allow", None])
def test_arguments_that_accept_unknown_fields_are_refused(extra: str | None) -> None:
    config = ConfigDict(extra=extra) if extra else ConfigDict()  # type: ignore[typeddict-item]
    loose = type("Loose", (BaseModel,), {"model_config": config, "__annotations__": {"order_id": str}})
    with pytest.raises(ValueError, match="forbid unknown fields"):
        read(args=loose)


@pytest.mark.spec("T1", "I2")
@pytest.mark.parametrize("name", sorted(IDENTITY_FIELDS | {"Tenant_ID"}))
def test_arguments_that_say_who_acts_are_refused(name: str) -> None:
    namespace = {"model_config": ConfigDict(extra="forbid"), "__annotations__": {name: str}}
    with pytest.raises(ValueError, match="who acts is not an argument"):
        read(args=type("Identified", (BaseModel,), namespace))


@pytest.mark.spec("T1")
def test_write_that_never_repeats_needs_no_lookup() -> None:
    assert write(retry=RetryClass.NEVER, hooks=Hooks()).retry is RetryClass.NEVER


@pytest.mark.spec("A1")
def test_schema_hash_is_the_same_for_the_same_declaration() -> None:
    assert write().schema_hash() == write().schema_hash()
    assert write().schema_hash() == write(title="Other words", description="Other words", timeout_s=3).schema_hash()


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    "changes",
    [{"name": "refund_more"}, {"version": "2"}, {"args": ArgsWithMore}, {"result": Args}],
    ids=["name", "version", "arguments", "result"],
)
def test_schema_hash_changes_with_what_was_approved(changes: dict[str, Any]) -> None:
    assert write(**changes).schema_hash() != write().schema_hash()


@pytest.mark.spec("T1", "G10")
@pytest.mark.parametrize(
    ("spec", "read_only", "destructive", "idempotent"),
    [
        (read(), True, False, True),
        (write(), False, True, True),
        (write(effect=Effect.REVERSIBLE), False, False, True),
        (write(effect=Effect.VISIBLE_TO_OTHERS), False, False, True),
    ],
    ids=["read", "irreversible", "reversible", "visible"],
)
def test_descriptor_carries_true_mcp_annotations(
    spec: ToolSpec, read_only: bool, destructive: bool, idempotent: bool
) -> None:
    annotations = spec.descriptor().annotations
    assert (annotations.readOnlyHint, annotations.destructiveHint) == (read_only, destructive)
    assert annotations.idempotentHint is idempotent
    assert annotations.openWorldHint is False


@pytest.mark.spec("T1")
def test_descriptor_travels_as_json_with_usable_schemas() -> None:
    descriptor = write().descriptor()
    again = ToolDescriptor.model_validate_json(descriptor.model_dump_json())
    assert again == descriptor
    jsonschema.validate({"order_id": "A1001", "amount": 299}, again.input_schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"order_id": "A1001", "amount": 299, "approved": True}, again.input_schema)
