"""Commands over a real server: typed, bounded in time and number, and every failure has its code (T4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.msg import Msg
from pydantic import BaseModel

from placet.contracts import subjects
from placet.contracts.envelope import Command
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import Reply
from placet.contracts.runs import Done, Summary, SummaryOf
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.messaging.rpc import DEADLINE_HEADER, ERROR_HEADER, MAX_REPLY_BYTES, Call, RpcClient, RpcServer
from placet.observability.context import RequestContext, bound, current
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

Handler = Callable[[Call, Any], Awaitable[BaseModel]]
ASK = SummaryOf(grant="g", conversation_id="conv-1")


@asynccontextmanager
async def _serving(bus: Bus, handler: Handler, *, concurrency: int = 128) -> AsyncIterator[RpcServer]:
    server = RpcServer(bus, "memory", {"get-summary": handler}, concurrency=concurrency)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace_s=1)


async def _ask(bus: Bus, command: Command = ASK, *, tenant: str = "acme", timeout_s: float = 5.0) -> Summary:
    return await RpcClient(bus).call("memory", "get-summary", command, Summary, tenant=tenant, timeout_s=timeout_s)


async def _code(work: Awaitable[Any]) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await work
    return caught.value


async def _echo(call: Call, command: SummaryOf) -> Summary:
    return Summary(summary=f"{call.tenant}/{command.conversation_id}", updated_at="now")


@pytest.mark.spec("C1")
@pytest.mark.parametrize("caller", ["gateway", "agent"])
async def test_command_is_answered_across_trust_domains(connect: Any, caller: str) -> None:
    async with _serving(await connect("memory"), _echo):
        assert (await _ask(await connect(caller))).summary == "acme/conv-1"


@pytest.mark.spec("L1")
async def test_command_carries_request_actor_and_trace_to_the_handler(connect: Any) -> None:
    seen: list[RequestContext] = []

    async def handler(call: Call, _: SummaryOf) -> Summary:
        assert current() == call.context
        seen.append(call.context)
        return Summary(summary="", updated_at=call.message_id)

    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    async with _serving(await connect("memory"), handler):
        with bound(RequestContext("req-9", "acme", "alice", trace)):
            reply = await _ask(await connect("gateway"))
    (context,) = seen
    assert (context.request_id, context.tenant, context.actor) == ("req-9", "acme", "alice")
    assert (context.traceparent, context.causation_id) == (trace, reply.updated_at)


@pytest.mark.spec("T4")
async def test_command_that_nobody_serves_is_unavailable_within_about_a_second(connect: Any) -> None:
    started = time.monotonic()
    error = await _code(_ask(await connect("gateway"), timeout_s=10))
    assert error.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    assert 0.9 <= time.monotonic() - started < 2.5


async def test_command_to_a_service_that_starts_meanwhile_is_answered(connect: Any) -> None:
    """A restart of a few hundred milliseconds is not seen by callers."""
    asked = asyncio.create_task(_ask(await connect("gateway")))
    await asyncio.sleep(0.3)
    async with _serving(await connect("memory"), _echo):
        assert (await asked).summary == "acme/conv-1"


@pytest.mark.spec("T4")
async def test_command_answered_too_late_is_a_timeout(connect: Any) -> None:
    async def slow(call: Call, command: SummaryOf) -> Summary:
        await asyncio.sleep(0.8)
        return await _echo(call, command)

    async with _serving(await connect("memory"), slow):
        started = time.monotonic()
        error = await _code(_ask(await connect("gateway"), timeout_s=0.3))
    assert error.code is ErrorCode.TIMEOUT
    assert time.monotonic() - started < 2


async def test_handler_knows_how_long_its_caller_waits(connect: Any) -> None:
    remaining: list[float] = []

    async def handler(call: Call, command: SummaryOf) -> Summary:
        remaining.append(call.remaining_s())
        return await _echo(call, command)

    async with _serving(await connect("memory"), handler):
        gateway = await connect("gateway")
        await _ask(gateway, timeout_s=3)
        await _ask(gateway, timeout_s=60)
    assert 2.5 < remaining[0] <= 3
    assert 59 < remaining[1] <= 60


async def test_handler_is_not_run_for_a_caller_that_has_given_up(connect: Any) -> None:
    handled: list[str] = []
    release = asyncio.Event()

    async def handler(call: Call, command: SummaryOf) -> Summary:
        handled.append(command.conversation_id)
        await release.wait()
        return await _echo(call, command)

    gateway = await connect("gateway")
    async with _serving(await connect("memory"), handler, concurrency=1):
        first = asyncio.create_task(_ask(gateway, timeout_s=5))
        await until(lambda: handled == ["conv-1"])
        late = SummaryOf(grant="g", conversation_id="gave-up")
        assert (await _code(_ask(gateway, late, timeout_s=0.2))).code is ErrorCode.TIMEOUT
        await asyncio.sleep(0.1)  # the callee's clock for this call started a moment later
        release.set()
        await first
        await _ask(gateway, SummaryOf(grant="g", conversation_id="next"))
    assert handled == ["conv-1", "next"]


@pytest.mark.spec("T4")
async def test_service_beyond_its_limit_answers_rate_limited_and_recovers(connect: Any) -> None:
    release = asyncio.Event()

    async def handler(call: Call, command: SummaryOf) -> Summary:
        await release.wait()
        return await _echo(call, command)

    gateway = await connect("gateway")
    async with _serving(await connect("memory"), handler, concurrency=2):
        calls = [asyncio.create_task(_ask(gateway, timeout_s=10)) for _ in range(40)]
        await until(lambda: sum(call.done() for call in calls) == 24, what="what is beyond 2 x 8 to be refused")
        release.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        refused = [result for result in results if isinstance(result, PlacetError)]
        assert {error.code for error in refused} == {ErrorCode.RATE_LIMITED}
        assert all(error.retryable for error in refused)
        assert len(results) - len(refused) == 16
        assert (await _ask(gateway)).summary == "acme/conv-1"


async def test_service_runs_no_more_handlers_at_once_than_allowed(connect: Any) -> None:
    running, most = 0, 0

    async def handler(call: Call, command: SummaryOf) -> Summary:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return await _echo(call, command)

    gateway = await connect("gateway")
    async with _serving(await connect("memory"), handler, concurrency=3):
        await asyncio.gather(*(_ask(gateway) for _ in range(20)))
    assert most == 3


class Wider(SummaryOf):
    actor: str = "mallory"


@pytest.mark.spec("T3")
async def test_command_with_an_unknown_field_is_invalid_and_its_value_is_not_echoed(connect: Any) -> None:
    async with _serving(await connect("memory"), _echo):
        wide = Wider(grant="g", conversation_id="c", actor="a-secret-value")
        error = await _code(_ask(await connect("gateway"), wide))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert [problem["field"] for problem in error.details["errors"]] == ["actor"]
    assert "a-secret-value" not in str(error.details)


def _raw(tenant: str, data: BaseModel = ASK) -> bytes:
    context = RequestContext("req-1", tenant, "alice")
    return wire.encode(
        message_id="cmd-1",
        source="placet/gateway",
        type_="t",
        subject="memory",
        context=context,
        tenant=tenant,
        data=data,
    )


async def _raw_code(bus: Bus, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> str | None:
    reply = await bus.client.request(subject, payload, timeout=3, headers=headers)
    return (reply.headers or {}).get(ERROR_HEADER)


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
        return await _echo(call, command)

    async with _serving(await connect("memory"), handler):
        assert await _raw_code(await connect("gateway"), subject, payload) == "invalid_request"
    assert handled == []


@pytest.mark.parametrize("value", ["", "soon", "-5", "1e3", "²", "9" * 400])
async def test_deadline_that_cannot_be_read_is_no_crash(connect: Any, value: str) -> None:
    async with _serving(await connect("memory"), _echo):
        subject = subjects.command("acme", "memory", "get-summary")
        code = await _raw_code(await connect("gateway"), subject, _raw("acme"), {DEADLINE_HEADER: value})
    assert code is None


@pytest.mark.spec("I4")
@pytest.mark.parametrize("tenant", ["*", "acme.globex", "", "acme\n", ">"])
async def test_command_for_a_hostile_tenant_is_not_sent(connect: Any, tenant: str) -> None:
    with pytest.raises(subjects.BadSubjectError):
        await _ask(await connect("gateway"), tenant=tenant)


async def test_answer_beyond_the_limit_is_payload_too_large(connect: Any) -> None:
    async def big(_: Call, command: SummaryOf) -> Summary:
        return Summary(summary="x" * (MAX_REPLY_BYTES if command.conversation_id == "big" else 800_000), updated_at="")

    async with _serving(await connect("memory"), big):
        gateway = await connect("gateway")
        assert len((await _ask(gateway)).summary) == 800_000
        error = await _code(_ask(gateway, SummaryOf(grant="g", conversation_id="big")))
    assert error.code is ErrorCode.PAYLOAD_TOO_LARGE


async def test_handler_that_crashes_is_internal_and_tells_nothing(connect: Any) -> None:
    async def crash(_: Call, command: SummaryOf) -> Summary:
        if command.conversation_id == "conv-1":
            raise ZeroDivisionError("password=hunter2")
        return Summary(summary="alive", updated_at="")

    async with _serving(await connect("memory"), crash):
        gateway = await connect("gateway")
        error = await _code(_ask(gateway))
        assert error.code is ErrorCode.INTERNAL
        assert "hunter2" not in f"{error} {error.details}"
        assert (await _ask(gateway, SummaryOf(grant="g", conversation_id="c2"))).summary == "alive"


async def test_handler_that_runs_into_a_timeout_of_its_own_is_a_timeout(connect: Any) -> None:
    async def handler(_: Call, __: SummaryOf) -> Summary:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
        raise AssertionError("unreachable")

    async with _serving(await connect("memory"), handler):
        assert (await _code(_ask(await connect("gateway")))).code is ErrorCode.TIMEOUT


@pytest.mark.spec("T4")
@pytest.mark.parametrize("code", list(ErrorCode))
async def test_every_code_of_the_callee_reaches_the_caller_with_its_details(connect: Any, code: ErrorCode) -> None:
    async def refuse(_: Call, __: SummaryOf) -> Summary:
        raise PlacetError(code, "why", limit=12, fields=["a"])

    async with _serving(await connect("memory"), refuse):
        error = await _code(_ask(await connect("gateway")))
    assert (error.code, error.message, error.details) == (code, "why", {"limit": 12, "fields": ["a"]})


class Other(Reply):
    unexpected: int = 1


async def test_answer_of_another_shape_is_internal(connect: Any) -> None:
    async def other(_: Call, __: SummaryOf) -> Other:
        return Other()

    async with _serving(await connect("memory"), other):
        assert (await _code(_ask(await connect("gateway")))).code is ErrorCode.INTERNAL


async def test_answer_with_a_field_of_tomorrow_is_read(connect: Any) -> None:
    class Later(Summary):
        language: str = "en"

    async def later(_: Call, __: SummaryOf) -> Later:
        return Later(summary="s", updated_at="")

    async with _serving(await connect("memory"), later):
        assert (await _ask(await connect("gateway"))).summary == "s"


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
    assert (await _code(_ask(await connect("gateway")))).code is ErrorCode.INTERNAL


async def test_service_of_several_replicas_handles_each_command_once(connect: Any) -> None:
    handled: list[tuple[int, str]] = []

    def replica(number: int) -> Handler:
        async def handler(call: Call, command: SummaryOf) -> Summary:
            handled.append((number, command.conversation_id))
            return await _echo(call, command)

        return handler

    gateway = await connect("gateway")
    async with (
        _serving(await connect("memory"), replica(1)),
        _serving(await connect("memory"), replica(2)),
        _serving(await connect("memory"), replica(3)),
    ):
        asked = [SummaryOf(grant="g", conversation_id=f"c{number}") for number in range(90)]
        await asyncio.gather(*(_ask(gateway, command) for command in asked))
    assert sorted(conversation for _, conversation in handled) == sorted(one.conversation_id for one in asked)
    assert {number for number, _ in handled} == {1, 2, 3}


async def test_service_that_stops_answers_what_it_has_and_takes_no_more(connect: Any) -> None:
    started = asyncio.Event()

    async def handler(call: Call, command: SummaryOf) -> Summary:
        started.set()
        await asyncio.sleep(0.3)
        return await _echo(call, command)

    gateway = await connect("gateway")
    async with _serving(await connect("memory"), handler) as server:
        in_hand = asyncio.create_task(_ask(gateway))
        await started.wait()
        await server.stop()
        assert (await in_hand).summary == "acme/conv-1"
        assert (await _code(_ask(gateway))).code is ErrorCode.DEPENDENCY_UNAVAILABLE


@pytest.mark.spec("T4")
async def test_command_while_the_bus_is_down_fails_fast_and_works_again_afterwards(own_rig: NatsRig) -> None:
    gateway, memory = await own_rig.bus("gateway"), await own_rig.bus("memory")
    async with _serving(memory, _echo):
        await _ask(gateway)
        own_rig.kill9()
        await until(lambda: not gateway.client.is_connected)
        started = time.monotonic()
        error = await _code(_ask(gateway, timeout_s=5))
        assert error.code is ErrorCode.DEPENDENCY_UNAVAILABLE
        assert time.monotonic() - started < 2
        await own_rig.start_bare()
        await until(gateway.ready)
        await until(memory.ready)
        assert (await _ask(gateway)).summary == "acme/conv-1"


async def test_server_for_a_command_that_is_not_in_the_contracts_is_refused(connect: Any) -> None:
    with pytest.raises(KeyError):
        RpcServer(await connect("memory"), "memory", {"approve-everything": _echo})


async def test_commands_of_one_owner_do_not_mix(connect: Any) -> None:
    async def forget(_: Call, __: SummaryOf) -> Done:
        return Done(ok=True)

    server = RpcServer(await connect("memory"), "memory", {"get-summary": _echo, "forget-summary": forget})
    await server.start()
    try:
        gateway = await connect("gateway")
        done = await RpcClient(gateway).call("memory", "forget-summary", ASK, Done, tenant="acme")
        assert done.ok
        assert (await _ask(gateway)).summary == "acme/conv-1"
    finally:
        await server.stop()
