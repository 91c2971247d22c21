"""The AsyncAPI 3.0 document of the bus, built from registry, topology and schemas; pure, nothing is connected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field, create_model
from pydantic.json_schema import models_json_schema

from placet.contracts.envelope import Envelope
from placet.contracts.errors import ErrorCode
from placet.contracts.registry import COMMANDS, EVENTS, CommandSpec, EventSpec
from placet.contracts.topology import DURABLES, FOLLOWERS, STORED_PREFIX, STREAMS, WRITERS

Document = dict[str, Any]

_SCHEMA_REF = "#/components/schemas/{model}"
_PARAMETERS: Document = {
    "tenant": {"description": "The tenant's id: one subject token of `A-Za-z0-9_-=:`."},
    "entity": {"description": "The id of the entity (proposal, effect key, run, call): one subject token."},
}
# Header names as `placet.messaging` sends them; a test keeps the two alike.
_HEADERS: dict[str, Document] = {
    "message": {"Nats-Msg-Id": {"type": "string", "description": "The envelope's id; repeated ids are stored once."}},
    "deadline": {"Placet-Timeout-Ms": {"type": "string", "pattern": "^[0-9]+$"}},
    "error": {"Placet-Error": {"type": "string", "enum": [code.value for code in ErrorCode]}},
    "signed": {
        "Placet-Signature": {"type": "string", "description": "Ed25519 over subject, previous sequence and payload."},
        "Placet-Signature-Key": {"type": "string"},
    },
    "appended": {
        "Nats-Expected-Last-Subject-Sequence": {"type": "string", "pattern": "^[0-9]+$"},
        "Nats-Expected-Last-Subject-Sequence-Subject": {"type": "string"},
    },
}

_ErrorReply = create_model(
    "ErrorReply",
    __doc__="The body of an error reply; its code is in the header `Placet-Error`.",
    message=(str, ...),
    details=(dict[str, Any], Field(default_factory=dict)),
)


def document(version: str) -> Document:
    """The whole document as plain JSON values, in a stable order. `version` is the package's."""
    models = _models()
    references, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_SCHEMA_REF)
    names = {model: references[(model, "validation")]["$ref"] for model in models}
    channels: Document = {}
    messages: Document = {}
    operations: Document = {}
    for command in COMMANDS:
        _add_command(command, names, channels, messages, operations)
    for event in EVENTS:
        _add_event(event, names, channels, messages, operations)
    messages["error"] = {
        "name": "error",
        "title": "Error reply",
        "contentType": "application/json",
        "headers": _headers("error"),
        "payload": {"$ref": names[_ErrorReply]},
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Placet",
            "version": version,
            "description": "Commands and events on NATS. The receiver owns commands, the publisher owns events.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": {"host": "nats:4222", "protocol": "nats", "security": [_local("securitySchemes", "nkey")]}},
        "channels": channels,
        "operations": operations,
        "components": {
            "securitySchemes": {"nkey": {"type": "asymmetricEncryption", "description": "One NATS nkey per service."}},
            "parameters": _PARAMETERS,
            "messages": messages,
            "schemas": schemas["$defs"],
        },
    }


def _models() -> list[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {Envelope: None, _ErrorReply: None}
    for command in COMMANDS:
        found[command.model] = None
        if command.reply:
            found[command.reply] = None
    for event in EVENTS:
        found[event.model] = None
    return list(found)


def _local(kind: str, name: str) -> Document:
    return {"$ref": f"#/components/{kind}/{name}"}


def _headers(*parts: str) -> Document:
    properties: Document = {}
    for part in parts:
        properties |= _HEADERS[part]
    return {"type": "object", "properties": properties}


def _channel(address: str | None, description: str, messages: Iterable[str], *parameters: str) -> Document:
    channel: Document = {
        "address": address,
        "description": description,
        "messages": {name: _local("messages", name) for name in messages},
    }
    if parameters:
        channel["parameters"] = {name: _local("parameters", name) for name in parameters}
    return channel


def _message(name: str, title: str, type_: str, data: str, headers: Document) -> Document:
    fixed = {"type": {"const": type_}, "data": {"$ref": data}}
    return {
        "name": name,
        "title": title,
        "contentType": "application/cloudevents+json",
        "headers": headers,
        "correlationId": {"location": "$message.payload#/correlationid"},
        "payload": {"allOf": [{"$ref": _SCHEMA_REF.format(model="Envelope")}, {"type": "object", "properties": fixed}]},
    }


def _operation(action: str, service: str, channel: str, message: str, summary: str) -> Document:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "tags": [{"name": service}],
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
    }


def _add_command(
    spec: CommandSpec,
    names: dict[type[BaseModel], str],
    channels: Document,
    messages: Document,
    operations: Document,
) -> None:
    name = f"{spec.owner}.{spec.name}"
    parameters = ["tenant"] if spec.reply else ["tenant", "entity"]
    address = f"placet.{{tenant}}.{spec.owner}.cmd.{spec.name}.v1" + ("" if spec.reply else ".{entity}")
    channels[name] = _channel(address, _about(spec.model), [name], *parameters)
    headers = _headers("deadline") if spec.reply else _headers("message")
    messages[name] = _message(name, spec.model.__name__, f"placet.{name}.v1", names[spec.model], headers)
    receive = _operation("receive", spec.owner, name, name, f"{spec.owner} takes {spec.name}")
    senders = [_operation("send", caller, name, name, f"{caller} asks {spec.name}") for caller in spec.callers]
    if spec.reply:
        receive["bindings"] = {"nats": {"queue": spec.owner}}
        reply = f"{name}.reply"
        # The reply's subject is the caller's own inbox, known only at run time: hence no address.
        channels[reply] = _channel(None, f"Reply to {name}, on the caller's inbox.", [reply, "error"])
        messages[reply] = {
            "name": reply,
            "title": spec.reply.__name__,
            "contentType": "application/json",
            "payload": {"$ref": names[spec.reply]},
        }
        answer = {
            "channel": {"$ref": f"#/channels/{reply}"},
            "messages": [{"$ref": f"#/channels/{reply}/messages/{one}"} for one in (reply, "error")],
        }
        for operation in (receive, *senders):
            operation["reply"] = answer
    operations[f"{spec.owner}.receive.{spec.name}"] = receive
    for caller, operation in zip(spec.callers, senders, strict=True):
        operations[f"{caller}.send.{name}"] = operation


def _add_event(
    spec: EventSpec,
    names: dict[type[BaseModel], str],
    channels: Document,
    messages: Document,
    operations: Document,
) -> None:
    name = f"{spec.owner}.{spec.name}"
    address = f"placet.{{tenant}}.{spec.owner}.evt.{spec.name}.v1.{{entity}}"
    stream = _stream_of(spec.owner)
    about = f"{_about(spec.model)} Stored on {stream}; republished as `{STORED_PREFIX}.<subject>` once it is on disk."
    channels[name] = _channel(address, about, [name], "tenant", "entity")
    parts = (
        ["message"]
        + (["appended"] if spec.owner not in ("audit", "knowledge") else [])
        + (["signed"] if spec.signed else [])
    )
    messages[name] = _message(name, spec.model.__name__, f"placet.{name}.v1", names[spec.model], _headers(*parts))
    for writer in _writers(spec.owner):
        operations[f"{writer}.send.{name}"] = _operation("send", writer, name, name, f"{writer} appends {spec.name}")
    for reader, how in _readers(spec).items():
        operations[f"{reader}.receive.{name}"] = _operation("receive", reader, name, name, f"{reader} {how}")


def _about(model: type[BaseModel]) -> str:
    """The model's own docstring: pydantic hands down its base class's, which says nothing about it."""
    own = model.__dict__.get("__doc__") or f"{model.__name__}."
    return " ".join(str(own).split())


def _stream_of(owner: str) -> str:
    return next(stream.name for stream in STREAMS if f"placet.*.{owner}.evt.>" in stream.subjects)


def _writers(owner: str) -> tuple[str, ...]:
    return next(writer.users for writer in WRITERS if writer.owner == owner)


def _readers(spec: EventSpec) -> dict[str, str]:
    """Who reacts to an event or follows it -> how."""
    subject = f"placet.*.{spec.owner}.evt.{spec.name}.v1.*"
    every = f"placet.*.{spec.owner}.evt.*.v1.*"
    readers = {user: "follows stored events" for user, owners in FOLLOWERS.items() if spec.owner in owners}
    for durable in DURABLES:
        if subject in durable.filters or every in durable.filters:
            readers[durable.user] = f"reacts by {durable.name}"
    return readers
