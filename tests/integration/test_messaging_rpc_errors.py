"""Commands over a real server: every failure has its code, and tells nothing else (T4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import Reply
from placet.contracts.runs import Summary, SummaryOf
from placet.messaging.rpc import ERROR_HEADER, Call
from tests.integration.rpc_steps import _raw, _raw_code, ask, code_of, echo, serving


class Wider(SummaryOf):
    actor: str = "mallory"


@pytest.mark.spec("T3")
async def test_command_with_an_unknown_field_is_invalid_and_its_value_is_not_echoed(connect: Any) -> None:
    async with serving(await connect("memory"), echo):
        wide = Wider(grant="g", conversation_id="c", actor="a-secret-value")
        error = await code_of(ask(await connect("gateway"), wide))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert [problem["field"] for problem in error.details["errors"]] == ["actor"]
    assert "a-secret-value" not in str(error.details)


@pytest.mark.spec("I4")
@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        (subjects.command("acme", "memory", "get-summary"), _raw("globex")),
        ("placet.*.memory.cmd.get-summary.v1", _raw("*")),
        (subjects.command("acme", "memory", "get-summary"), b""),
        (subjects.command("acme", "memory", "get-summary"), b"not json"),
        (subjects.command("acme", "memory", "get-summary"), b"[]"),
        (subjects.command("acme", "memory", "get-summary"), b'{"specversion":"1.0"}'),
        (subjects.command("acme", "memory", "get-summary"), b"[" * 100_000),
    ],
    ids=["other tenant", "any tenant", "empty", "no json", "a list", "half an envelope", "deeply nested"],
)
async def test_message_that_is_no_command_for_this_tenant_is_invalid(
    connect: Any, subject: str, payload: bytes
) -> None:
    handled: list[Call] = []

    async def handler(call: Call, command: SummaryOf) -> Summary:
        handled.append(call)
        return await echo(call, command)

    async with serving(await connect("memory"), handler):
        assert await _raw_code(await connect("gateway"), subject, payload) == "invalid_request"
    assert handled == []


@pytest.mark.spec("I4")
@pytest.mark.parametrize("tenant", ["*", "acme.globex", "", "acme\n", ">"])
async def test_command_for_a_hostile_tenant_is_not_sent(connect: Any, tenant: str) -> None:
    with pytest.raises(subjects.BadSubjectError):
        await ask(await connect("gateway"), tenant=tenant)


async def test_handler_that_crashes_is_internal_and_tells_nothing(connect: Any) -> None:
    async def crash(_: Call, command: SummaryOf) -> Summary:
        if command.conversation_id == "conv-1":
            raise ZeroDivisionError("password=hunter2")
        return Summary(summary="alive", updated_at="")

    async with serving(await connect("memory"), crash):
        gateway = await connect("gateway")
        error = await code_of(ask(gateway))
        assert error.code is ErrorCode.INTERNAL
        assert "hunter2" not in f"{error} {error.details}"
        assert (await ask(gateway, SummaryOf(grant="g", conversation_id="c2"))).summary == "alive"


async def test_handler_that_runs_into_a_timeout_of_its_own_is_a_timeout(connect: Any) -> None:
    async def handler(_: Call, __: SummaryOf) -> Summary:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
        raise AssertionError("unreachable")

    async with serving(await connect("memory"), handler):
        assert (await code_of(ask(await connect("gateway")))).code is ErrorCode.TIMEOUT


@pytest.mark.spec("T4")
@pytest.mark.parametrize("code", list(ErrorCode))
async def test_every_code_of_the_callee_reaches_the_caller_with_its_details(connect: Any, code: ErrorCode) -> None:
    async def refuse(_: Call, __: SummaryOf) -> Summary:
        raise PlacetError(code, "why", limit=12, fields=["a"])

    async with serving(await connect("memory"), refuse):
        error = await code_of(ask(await connect("gateway")))
    assert (error.code, error.message, error.details) == (code, "why", {"limit": 12, "fields": ["a"]})


class Other(Reply):
    unexpected: int = 1


async def test_answer_of_another_shape_is_internal(connect: Any) -> None:
    async def other(_: Call, __: SummaryOf) -> Other:
        return Other()

    async with serving(await connect("memory"), other):
        assert (await code_of(ask(await connect("gateway")))).code is ErrorCode.INTERNAL


async def test_answer_with_a_field_of_tomorrow_is_read(connect: Any) -> None:
    class Later(Summary):
        language: str = "en"

    async def later(_: Call, __: SummaryOf) -> Later:
        return Later(summary="s", updated_at="")

    async with serving(await connect("memory"), later):
        assert (await ask(await connect("gateway"))).summary == "s"


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("no_such_code", b'{"message":"m"}'),
        ("timeout", b"not json"),
        ("timeout", b"[]"),
        ("timeout", b'{"details":{}}'),
    ],
)
async def test_error_answer_that_cannot_be_read_is_internal(connect: Any, code: str, body: bytes) -> None:
    memory = await connect("memory")

    async def answer(message: Msg) -> None:
        await memory.client.publish(message.reply, body, headers={ERROR_HEADER: code})

    await memory.client.subscribe(subjects.command_filter("*", "memory", "get-summary"), cb=answer)
    await memory.client.flush()
    assert (await code_of(ask(await connect("gateway")))).code is ErrorCode.INTERNAL
