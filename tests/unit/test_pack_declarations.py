"""What the built-in tools declare: every tool of the route table, with the right sensitivity, effect and hints."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.tools import IDENTITY_FIELDS, Effect, RetryClass, Risk, Route, Sensitivity
from placet.toolkit import Actor, ToolContext, ToolSpec
from placet.toolkit.registry import ToolRegistry, discover

READ, SENSITIVE, WRITE = Sensitivity.READ, Sensitivity.SENSITIVE_READ, Sensitivity.WRITE
DECLARED: dict[str, tuple[Sensitivity, Effect, Risk]] = {
    "search_knowledge": (READ, Effect.NONE, Risk.LOW),
    "get_document_source": (READ, Effect.NONE, Risk.LOW),
    "read_document_version": (SENSITIVE, Effect.NONE, Risk.MEDIUM),
    "create_publish_proposal": (READ, Effect.NONE, Risk.HIGH),
    "apply_publish_decision": (WRITE, Effect.VISIBLE_TO_OTHERS, Risk.HIGH),
    "query_business_data": (READ, Effect.NONE, Risk.MEDIUM),
    "create_ticket": (WRITE, Effect.VISIBLE_TO_OTHERS, Risk.HIGH),
    "add_order_note": (WRITE, Effect.REVERSIBLE, Risk.HIGH),
    "refund_payment": (WRITE, Effect.IRREVERSIBLE, Risk.CRITICAL_FUNDS),
    "cancel_refund": (WRITE, Effect.IRREVERSIBLE, Risk.CRITICAL_FUNDS),
    "cancel_order": (WRITE, Effect.IRREVERSIBLE, Risk.CRITICAL_FUNDS),
    "change_order": (WRITE, Effect.REVERSIBLE, Risk.CRITICAL_FUNDS),
    "send_message": (WRITE, Effect.VISIBLE_TO_OTHERS, Risk.HIGH),
    "request_approval": (WRITE, Effect.VISIBLE_TO_OTHERS, Risk.HIGH),
    "run_readonly_sql": (SENSITIVE, Effect.NONE, Risk.CRITICAL_SYSTEM),
}
ROUTES: dict[Route, set[str]] = {
    Route.FIXED_RAG: {"search_knowledge", "get_document_source"},
    Route.VERSION_TOOL: {"search_knowledge", "get_document_source", "read_document_version"},
    Route.BUSINESS_QUERY: {"search_knowledge", "query_business_data"},
    Route.BUSINESS_ACTION: {
        *("search_knowledge", "query_business_data", "create_ticket", "add_order_note"),
        *("refund_payment", "cancel_order", "request_approval"),
    },
    Route.HTTP_PUBLISH: {"create_publish_proposal", "apply_publish_decision"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_knowledge": {"query": "q", "k": 3},
    "get_document_source": {"document_id": "d", "version": 1},
    "read_document_version": {"document_id": "d"},
    "create_publish_proposal": {"document_id": "d"},
    "apply_publish_decision": {"document_id": "d", "version": 1, "lock_version": 1},
    "query_business_data": {"entity": "orders", "order_id": "A1001", "customer_id": "C1001", "limit": 5},
    "create_ticket": {"title": "t", "priority": "high", "team": "support", "description": "d"},
    "add_order_note": {"order_id": "A1001", "note": "n"},
    "refund_payment": {"order_id": "A1001", "amount": 299, "reason": "r"},
    "cancel_refund": {"order_id": "A1001", "refund_id": "R-1", "reason": "r"},
    "cancel_order": {"order_id": "A1001", "reason": "r"},
    "change_order": {"order_id": "A1001", "item": "i", "address": "a"},
    "send_message": {"customer_id": "C1001", "text": "t"},
    "request_approval": {"subject": "s", "details": "d"},
    "run_readonly_sql": {"sql": "SELECT order_id FROM orders"},
}


@pytest.fixture(scope="module")
def registry() -> ToolRegistry:
    return ToolRegistry(discover())


def tool(registry: ToolRegistry, name: str) -> ToolSpec:
    found = registry.get(name)
    assert found is not None, f"{name} is not declared"
    return found


@pytest.mark.spec("T1", "G3")
@pytest.mark.parametrize("name", DECLARED)
def test_tool_of_the_specification_is_declared_as_it_says(registry: ToolRegistry, name: str) -> None:
    spec = tool(registry, name)
    assert (spec.sensitivity, spec.effect, spec.risk) == DECLARED[name]


@pytest.mark.spec("T2")
@pytest.mark.parametrize("route", ROUTES)
def test_route_offers_only_tools_that_exist(registry: ToolRegistry, root: Path, route: Route) -> None:
    table = json.loads((root / "policies/tables/routes/data.json").read_text())
    assert set(table[route.value]["tools"]) == ROUTES[route]
    assert all(registry.get(name) for name in ROUTES[route])


@pytest.mark.spec("G3")
def test_declared_risk_is_the_risk_of_the_policy_table(registry: ToolRegistry, root: Path) -> None:
    """The graver of both counts, so a difference would quietly ask other people than the table says."""
    table = json.loads((root / "policies/tables/tools/data.json").read_text())
    assert {name: entry["risk"] for name, entry in table.items()} == {
        spec.name: spec.risk.value for spec in registry if spec.name in DECLARED
    }
    domains = {name: entry["domain"] for name, entry in table.items() if name != "run_readonly_sql"}
    assert domains == {name: registry.pack_of(name) for name in domains}


@pytest.mark.spec("W2", "G10")
def test_refund_descriptor_carries_the_mcp_annotations(registry: ToolRegistry) -> None:
    descriptor = tool(registry, "refund_payment").descriptor().model_dump(mode="json")
    assert descriptor["annotations"] == {
        "title": "Refund a payment",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert descriptor["input_schema"]["properties"]["amount"]["type"] == "number"
    assert descriptor["input_schema"]["additionalProperties"] is False
    assert set(descriptor["input_schema"]["required"]) == {"order_id", "amount", "reason"}


@pytest.mark.spec("W2", "T1")
def test_every_write_can_be_repeated_looked_up_shown_and_read_back(registry: ToolRegistry) -> None:
    writes = [spec for spec in registry if spec.writes]
    assert len(writes) == 9
    for spec in writes:
        assert spec.needs_idempotency_key, spec.name
        assert spec.retry is RetryClass.KEYED, spec.name
        assert spec.hooks.lookup, spec.name
        assert spec.hooks.verify, spec.name
        assert spec.hooks.preview, spec.name
        assert not spec.descriptor().annotations.readOnlyHint


@pytest.mark.spec("G10")
def test_undo_tool_exists_and_comes_with_a_plan(registry: ToolRegistry) -> None:
    undoable = {spec.name: spec for spec in registry if spec.undo_tool}
    assert undoable.keys() == {"change_order", "apply_publish_decision"}
    for spec in undoable.values():
        assert registry.get(spec.undo_tool or "")
        assert spec.hooks.compensate


@pytest.mark.spec("T3")
@pytest.mark.parametrize("name", DECLARED)
def test_arguments_hold_no_identity_field_and_refuse_what_is_unknown(registry: ToolRegistry, name: str) -> None:
    spec = tool(registry, name)
    assert not IDENTITY_FIELDS & spec.args.model_fields.keys()
    spec.args.model_validate(ARGUMENTS[name])
    for extra in ({"tenant_id": "globex"}, {"surprise": 1}):
        with pytest.raises(ValueError, match="Extra inputs"):
            spec.args.model_validate({**ARGUMENTS[name], **extra})


@pytest.mark.spec("T3")
@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("wrong", [None, True, 5, 1.5, [], {}, "", " ", "a\x00b", "x" * 20_000])
def test_arguments_of_a_wrong_kind_are_refused(registry: ToolRegistry, name: str, wrong: Any) -> None:
    spec = tool(registry, name)
    first = next(iter(ARGUMENTS[name]))
    with pytest.raises(ValueError, match="validation error"):
        spec.args.model_validate({**ARGUMENTS[name], first: wrong})


@pytest.mark.spec("W2")
@pytest.mark.parametrize("name", DECLARED)
def test_schemas_are_json_schema_and_take_what_the_models_take(registry: ToolRegistry, name: str) -> None:
    spec = tool(registry, name)
    descriptor = spec.descriptor()
    for schema in (descriptor.input_schema, descriptor.output_schema):
        Draft202012Validator.check_schema(schema)
    args = spec.args.model_validate(ARGUMENTS[name]).model_dump(mode="json", exclude_none=True)
    assert not list(Draft202012Validator(descriptor.input_schema).iter_errors(args))
    # What a packet stores is what the tool accepts again at commit.
    assert spec.args.model_validate(args) == spec.args.model_validate(ARGUMENTS[name])


@pytest.mark.spec("T1")
def test_schema_hash_is_stable_and_differs_between_tools(registry: ToolRegistry) -> None:
    hashes = {spec.name: spec.schema_hash() for spec in registry}
    assert len(set(hashes.values())) == len(hashes)
    again = ToolRegistry(discover())
    assert {spec.name: spec.schema_hash() for spec in again} == hashes


@pytest.mark.spec("T4")
@pytest.mark.parametrize("name", DECLARED)
async def test_call_before_the_pack_is_open_is_dependency_unavailable(registry: ToolRegistry, name: str) -> None:
    spec = tool(registry, name)
    actor = Actor("acme", "alice", True, frozenset({"employee"}), frozenset(), 1)
    context = ToolContext(actor, "call-1", "req-1", datetime.now(UTC), idempotency_key="key-1")
    with pytest.raises(PlacetError) as caught:
        await spec.handler(context, spec.args.model_validate(ARGUMENTS[name]))
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    assert not await registry.ready()
