"""Every message of the registry: commands are strict, events are lenient, codes are a closed set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from placet.contracts import registry
from placet.contracts.envelope import Envelope
from placet.contracts.errors import RULES, ErrorCode, NextHop, PlacetError, not_found
from placet.contracts.examples import example
from placet.contracts.registry import COMMANDS, EVENTS, CommandSpec, EventSpec
from placet.contracts.topology import BUCKETS, DURABLES, SERVICE_DOMAIN, STREAMS, USERS, WRITERS

# Strict on purpose although they travel inside events: an obligation nobody knows could not be kept, and a budget with
# an unknown meter could not be charged. Whoever makes another event strict answers for it here.
STRICT_INSIDE_EVENTS = {"Obligations", "Budget"}


def _name(spec: CommandSpec | EventSpec) -> str:
    return f"{spec.owner}.{spec.name}"


@pytest.mark.spec("T3")
@pytest.mark.parametrize("spec", COMMANDS, ids=_name)
def test_command_with_an_unknown_field_is_rejected(spec: CommandSpec) -> None:
    payload = example(spec.model)
    spec.model.model_validate(payload)
    with pytest.raises(ValidationError):
        spec.model.model_validate(payload | {"a_field_of_tomorrow": 1})


@pytest.mark.parametrize("spec", EVENTS, ids=_name)
def test_event_with_an_unknown_field_is_read_without_it(spec: EventSpec) -> None:
    payload = example(spec.model)
    read = spec.model.model_validate(payload | {"a_field_of_tomorrow": {"deep": [1]}})
    assert read == spec.model.model_validate(payload)
    assert "a_field_of_tomorrow" not in read.model_dump()


@pytest.mark.parametrize("spec", [spec for spec in COMMANDS if spec.reply], ids=_name)
def test_reply_with_an_unknown_field_is_read_without_it(spec: CommandSpec) -> None:
    assert spec.reply is not None
    payload = example(spec.reply)
    assert spec.reply.model_validate(payload | {"a_field_of_tomorrow": 1}) == spec.reply.model_validate(payload)


def _models_within(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models_within(field.annotation)
    for argument in get_args(annotation):
        yield from _models_within(argument)


def test_events_are_lenient_all_the_way_down() -> None:
    strict = {
        model.__name__
        for spec in EVENTS
        for model in _models_within(spec.model)
        if model.model_config.get("extra") == "forbid"
    }
    assert strict == STRICT_INSIDE_EVENTS


@pytest.mark.parametrize("spec", [*COMMANDS, *EVENTS], ids=_name)
def test_message_once_read_cannot_be_changed(spec: CommandSpec | EventSpec) -> None:
    read = spec.model.model_validate(example(spec.model))
    with pytest.raises(ValidationError):
        setattr(read, next(iter(type(read).model_fields)), "changed")


@pytest.mark.spec("I2")
@pytest.mark.parametrize("spec", COMMANDS, ids=_name)
def test_command_carries_a_grant_or_comes_from_a_service_that_checked_one(spec: CommandSpec) -> None:
    """Whoever takes a command from outside CORE verifies a grant; inside CORE the origin's was verified before."""
    if "grant" not in spec.model.model_fields:
        assert {SERVICE_DOMAIN[caller] for caller in spec.callers} == {SERVICE_DOMAIN["approval"]}
        assert "origin" in spec.model.model_fields


def test_registry_names_each_message_once_and_known_services_only() -> None:
    names = [_name(spec) for spec in (*COMMANDS, *EVENTS)]
    assert len(names) == len(set(names))
    assert {spec.owner for spec in COMMANDS} <= set(USERS)
    assert {caller for spec in COMMANDS for caller in spec.callers} <= set(USERS) - {"provision", "auditor"}
    assert all(spec.owner not in spec.callers for spec in COMMANDS)
    assert {spec.owner for spec in EVENTS} == {writer.owner for writer in WRITERS}
    with pytest.raises(KeyError):
        registry.command_spec("approval", "approve-everything")
    with pytest.raises(KeyError):
        registry.event_spec("approval", "decided")


@pytest.mark.spec("A2")
def test_events_that_grant_power_are_signed() -> None:
    assert {spec.owner for spec in EVENTS if spec.signed} == {"approval", "tool-executor", "seal"}
    assert all(spec.signed for spec in EVENTS if spec.owner in ("approval", "tool-executor", "seal"))


def test_durables_follow_messages_that_exist() -> None:
    known = {f"placet.*.{spec.owner}.evt.{spec.name}.v1.*" for spec in EVENTS}
    known |= {f"placet.*.{owner}.evt.*.v1.*" for owner in {spec.owner for spec in EVENTS}}
    known |= {f"placet.*.{spec.owner}.cmd.{spec.name}.v1.*" for spec in COMMANDS if spec.reply is None}
    streams = {stream.name for stream in STREAMS} | {f"KV_{bucket.name}" for bucket in BUCKETS}
    for durable in DURABLES:
        assert durable.stream in streams
        assert durable.user in USERS
        assert all(one in known or one.startswith(("timers.fire.", "$KV.")) for one in durable.filters), durable.name


@pytest.mark.spec("L1", "L2")
def test_streams_of_record_are_append_only() -> None:
    assert {stream.name for stream in STREAMS if stream.append_only} == {
        "APPROVALS",
        "EFFECTS",
        "RUNS",
        "AUDIT",
        "SEALS",
        "DOCUMENTS",
    }


@pytest.mark.spec("T4")
def test_every_error_code_has_a_rule_and_there_is_no_other() -> None:
    assert set(RULES) == set(ErrorCode)
    assert {rule.next_hop for rule in RULES.values()} <= set(NextHop)


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("code", "retryable", "next_hop"),
    [
        ("tool_not_allowed", False, NextHop.SAFE_REFUSAL),
        ("permission_denied", False, NextHop.SAFE_REFUSAL),
        ("invalid_arguments", False, NextHop.SAME_NODE),
        ("not_found", False, NextHop.ASK_BACK),
        ("conflict", False, NextHop.TELL_USER),
        ("timeout", True, NextHop.DEGRADE),
        ("rate_limited", True, NextHop.DEGRADE),
        ("dependency_unavailable", True, NextHop.DEGRADE),
        ("policy_unavailable", True, NextHop.DEGRADE),
        ("limit_reached", False, NextHop.FINISH),
        ("outcome_unknown", False, NextHop.PARK),
    ],
)
def test_error_code_of_a_tool_call_leads_where_the_specification_says(
    code: str, retryable: bool, next_hop: NextHop
) -> None:
    error = PlacetError(ErrorCode(code), "text")
    assert (error.retryable, error.rule.next_hop) == (retryable, next_hop)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("not_found", 404),
        ("unauthenticated", 401),
        ("invalid_request", 422),
        ("challenge_failed", 422),
        ("already_decided", 409),
        ("expired", 409),
        ("conflict", 409),
        ("idempotency_mismatch", 409),
        ("limit_reached", 429),
        ("dependency_unavailable", 503),
        ("permission_denied", 403),
        ("payload_too_large", 413),
    ],
)
def test_error_code_answers_with_the_documented_http_status(code: str, status: int) -> None:
    assert RULES[ErrorCode(code)].status == status


@pytest.mark.spec("I3", "T5")
def test_absent_and_forbidden_are_one_answer() -> None:
    first, second = not_found(), not_found()
    assert (first.code, first.message, first.details) == (second.code, second.message, second.details)
    assert first.code is ErrorCode.NOT_FOUND
    assert first.details == {}


@pytest.mark.parametrize("missing", ["id", "source", "type", "subject", "tenant", "correlationid", "data"])
def test_envelope_without_a_required_attribute_is_rejected(missing: str) -> None:
    payload = example(Envelope)
    Envelope.model_validate(payload)
    with pytest.raises(ValidationError):
        Envelope.model_validate({key: value for key, value in payload.items() if key != missing})


@pytest.mark.parametrize(
    "change", [{"specversion": "0.3"}, {"id": ""}, {"id": "x" * 201}, {"data": []}, {"time": "noon"}]
)
def test_envelope_that_is_no_cloudevent_of_ours_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Envelope.model_validate(example(Envelope) | change)


def test_envelope_ignores_extension_attributes_it_does_not_know() -> None:
    assert Envelope.model_validate(example(Envelope) | {"partitionkey": "x"}).id == "id"
