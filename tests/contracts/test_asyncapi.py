"""The AsyncAPI document: well formed, complete, and true to the registry and to what the code really sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from placet.cli.generate import _yaml
from placet.contracts import events, subjects
from placet.contracts.asyncapi import document
from placet.contracts.examples import example
from placet.contracts.registry import COMMANDS, EVENTS
from placet.contracts.topology import SERVICE_DOMAIN
from placet.messaging import append, rpc, wire
from placet.observability.context import RequestContext

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document("9.9.9")))

REFERENCE = {
    "type": "object",
    "required": ["$ref"],
    "additionalProperties": False,
    "properties": {"$ref": {"type": "string", "pattern": "^#/"}},
}
NAMES = {"propertyNames": {"pattern": "^[A-Za-z0-9._-]+$"}}
# The parts of the AsyncAPI 3.0 meta-schema that this document uses; everything else is not allowed.
META = {
    "type": "object",
    "additionalProperties": False,
    "required": ["asyncapi", "info", "servers", "channels", "operations", "components"],
    "properties": {
        "asyncapi": {"const": "3.0.0"},
        "info": {"type": "object", "required": ["title", "version"]},
        "defaultContentType": {"type": "string"},
        "servers": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["host", "protocol"],
                "properties": {
                    "host": {"type": "string"},
                    "protocol": {"type": "string"},
                    "security": {"type": "array", "items": REFERENCE},
                },
            },
        },
        "channels": {
            "type": "object",
            **NAMES,
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["address", "messages"],
                "properties": {
                    "address": {"type": ["string", "null"]},
                    "description": {"type": "string", "minLength": 1},
                    "messages": {"type": "object", "minProperties": 1, "additionalProperties": REFERENCE},
                    "parameters": {"type": "object", "additionalProperties": REFERENCE},
                },
            },
        },
        "operations": {
            "type": "object",
            **NAMES,
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["action", "channel", "messages"],
                "properties": {
                    "action": {"enum": ["send", "receive"]},
                    "channel": REFERENCE,
                    "summary": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "object", "required": ["name"]}},
                    "messages": {"type": "array", "minItems": 1, "items": REFERENCE},
                    "bindings": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"nats": {"type": "object", "properties": {"queue": {"type": "string"}}}},
                    },
                    "reply": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["channel", "messages"],
                        "properties": {"channel": REFERENCE, "messages": {"type": "array", "items": REFERENCE}},
                    },
                },
            },
        },
        "components": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "schemas": {"type": "object", **NAMES},
                "parameters": {"type": "object", **NAMES},
                "securitySchemes": {"type": "object", **NAMES},
                "messages": {
                    "type": "object",
                    **NAMES,
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["name", "payload", "contentType"],
                        "properties": {
                            "name": {"type": "string"},
                            "title": {"type": "string"},
                            "contentType": {"type": "string"},
                            "headers": {"type": "object"},
                            "payload": {"type": "object"},
                            "correlationId": {"type": "object", "required": ["location"]},
                        },
                    },
                },
            },
        },
    },
}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _resolve(reference: str) -> Any:
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def _payload_check(message: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(DOCUMENT | {"$ref": f"#/components/messages/{message}/payload"})


def test_document_fits_the_meta_schema() -> None:
    jsonschema.Draft202012Validator(META).validate(DOCUMENT)


def test_document_survives_yaml() -> None:
    assert yaml.safe_load(_yaml(document("9.9.9"))) == DOCUMENT


def test_every_reference_leads_somewhere() -> None:
    references = list(_references(DOCUMENT))
    assert len(references) > 500
    for reference in references:
        _resolve(reference)


def test_every_schema_is_a_valid_json_schema() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_address_declares_exactly_its_parameters() -> None:
    for name, channel in DOCUMENT["channels"].items():
        address = channel["address"] or ""
        declared = set(channel.get("parameters", {}))
        assert declared == {part[1:-1] for part in address.split(".") if part.startswith("{")}, name


def test_operations_send_only_messages_of_their_channel() -> None:
    for name, operation in DOCUMENT["operations"].items():
        for half in (operation, operation.get("reply")):
            if half:
                channel = half["channel"]["$ref"]
                assert all(one["$ref"].startswith(f"{channel}/messages/") for one in half["messages"]), name


@pytest.mark.spec("C1")
def test_every_command_has_one_receiver_and_exactly_its_callers() -> None:
    operations = DOCUMENT["operations"]
    for command in COMMANDS:
        name = f"{command.owner}.{command.name}"
        channel = {"$ref": f"#/channels/{name}"}
        receivers = {key for key, one in operations.items() if one["channel"] == channel and one["action"] == "receive"}
        senders = {key for key, one in operations.items() if one["channel"] == channel and one["action"] == "send"}
        assert receivers == {f"{command.owner}.receive.{command.name}"}
        assert senders == {f"{caller}.send.{name}" for caller in command.callers}
        assert all(("reply" in operations[key]) == (command.reply is not None) for key in receivers | senders)


@pytest.mark.spec("C1")
def test_every_event_has_its_one_writer_and_its_reactions() -> None:
    operations = DOCUMENT["operations"]
    for event in EVENTS:
        name = f"{event.owner}.{event.name}"
        senders = {key for key in operations if key.endswith(f".send.{name}")}
        if event.owner == "audit":
            assert len(senders) == 5
        elif event.owner == "knowledge":
            assert senders == {f"tool-executor.send.{name}"}
        elif event.owner == "seal":
            assert senders == {f"approval.send.{name}"}
        else:
            assert senders == {f"{event.owner}.send.{name}"}
        assert f"auditor.receive.{name}" in operations
    assert "tool-executor.receive.approval.approved" in operations
    assert "agent.receive.approval.completed" in operations
    assert "gateway.receive.agent.run-completed" in operations
    assert "agent.receive.approval.approved" not in operations
    assert {key.split(".")[0] for key in operations} <= set(SERVICE_DOMAIN)


@pytest.mark.parametrize("name", [f"{event.owner}.{event.name}" for event in EVENTS])
def test_event_really_encoded_fits_its_documented_message(name: str) -> None:
    spec = next(event for event in EVENTS if f"{event.owner}.{event.name}" == name)
    data = spec.model.model_validate(example(spec.model))
    sent = wire.encode(
        message_id="evt-1",
        source=f"placet/{spec.owner}",
        type_=f"placet.{name}.v1",
        subject="entity-1",
        context=RequestContext("req-1", "acme", "alice", "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "cmd-1"),
        tenant="acme",
        data=data,
    )
    check = _payload_check(name)
    check.validate(json.loads(sent))
    for change in ({"type": "placet.other.v1"}, {"data": []}, {"specversion": "2"}):
        assert list(check.iter_errors(json.loads(sent) | change)), change


def test_error_reply_really_sent_fits_its_documented_message() -> None:
    check = _payload_check("error")
    check.validate({"message": "No such resource.", "details": {"errors": []}})
    assert list(check.iter_errors({"details": {}}))


def test_documented_headers_are_the_ones_really_sent() -> None:
    headers = {
        name
        for message in DOCUMENT["components"]["messages"].values()
        for name in message.get("headers", {}).get("properties", {})
    }
    assert headers == {
        append.MESSAGE_ID,
        append.EXPECTED,
        append.EXPECTED_SUBJECT,
        append.SIGNATURE,
        append.SIGNATURE_KEY,
        rpc.DEADLINE_HEADER,
        rpc.ERROR_HEADER,
    }


def test_documented_addresses_are_the_subjects_really_used() -> None:
    channels = DOCUMENT["channels"]

    def filled(name: str) -> str:
        address: str = channels[name]["address"]
        return address.format(tenant="acme", entity="x1")

    assert filled("approval.decide") == subjects.command("acme", "approval", "decide")
    assert filled("agent.start-run") == subjects.command("acme", "agent", "start-run", "x1")
    assert filled("approval.approved") == subjects.event("acme", "approval", "approved", "x1")
    assert channels["approval.decide.reply"]["address"] is None


def test_schema_of_a_message_is_the_models_own() -> None:
    """The shared components say the same as the model alone does (that is what the golden files hold)."""
    model: type[BaseModel] = events.Proposed
    alone = model.model_json_schema()
    shared = DOCUMENT["components"]["schemas"]["Proposed"]
    assert set(shared["properties"]) == set(alone["properties"])
    assert shared["required"] == alone["required"]
