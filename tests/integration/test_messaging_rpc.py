"""Commands over a real server: answered across trust domains, once, by whoever serves them (C1)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode
from placet.contracts.runs import Done, Summary, SummaryOf
from placet.messaging.rpc import Call, RpcClient, RpcServer
from placet.observability.context import RequestContext, bound, current
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until
from tests.integration.rpc_steps import ASK, Handler, ask, code_of, echo, serving


@pytest.mark.spec("C1")
@pytest.mark.parametrize("caller", ["gateway", "agent"])
async def test_command_is_answered_across_trust_domains(connect: Any, caller: str) -> None:
    async with serving(await connect("memory"), echo):
        assert (await ask(await connect(caller))).summary == "acme/conv-1"


@pytest.mark.spec("L1")
async def test_command_carries_request_actor_and_trace_to_the_handler(connect: Any) -> None:
    seen: list[RequestContext] = []

    async def handler(call: Call, _: SummaryOf) -> Summary:
        assert current() == call.context
        seen.append(call.context)
        return Summary(summary="", updated_at=call.message_id)

    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    async with serving(await connect("memory"), handler):
        with bound(RequestContext("req-9", "acme", "alice", trace)):
            reply = await ask(await connect("gateway"))
    (context,) = seen
    assert (context.request_id, context.tenant, context.actor) == ("req-9", "acme", "alice")
    assert (context.traceparent, context.causation_id) == (trace, reply.updated_at)


@pytest.mark.spec("T4")
async def test_command_that_nobody_serves_is_unavailable_within_about_a_second(connect: Any) -> None:
    started = time.monotonic()
    error = await code_of(ask(await connect("gateway"), timeout_s=10))
    assert error.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    assert 0.9 <= time.monotonic() - started < 2.5


async def test_command_to_a_service_that_starts_meanwhile_is_answered(connect: Any) -> None:
    """A restart of a few hundred milliseconds is not seen by callers."""
    asked = asyncio.create_task(ask(await connect("gateway")))
    await asyncio.sleep(0.3)
    async with serving(await connect("memory"), echo):
        assert (await asked).summary == "acme/conv-1"


async def test_service_of_several_replicas_handles_each_command_once(connect: Any) -> None:
    handled: list[tuple[int, str]] = []

    def replica(number: int) -> Handler:
        async def handler(call: Call, command: SummaryOf) -> Summary:
            handled.append((number, command.conversation_id))
            return await echo(call, command)

        return handler

    gateway = await connect("gateway")
    async with (
        serving(await connect("memory"), replica(1)),
        serving(await connect("memory"), replica(2)),
        serving(await connect("memory"), replica(3)),
    ):
        asked = [SummaryOf(grant="g", conversation_id=f"c{number}") for number in range(90)]
        await asyncio.gather(*(ask(gateway, command) for command in asked))
    assert sorted(conversation for _, conversation in handled) == sorted(one.conversation_id for one in asked)
    assert {number for number, _ in handled} == {1, 2, 3}


async def test_service_that_stops_answers_what_it_has_and_takes_no_more(connect: Any) -> None:
    started = asyncio.Event()

    async def handler(call: Call, command: SummaryOf) -> Summary:
        started.set()
        await asyncio.sleep(0.3)
        return await echo(call, command)

    gateway = await connect("gateway")
    async with serving(await connect("memory"), handler) as server:
        in_hand = asyncio.create_task(ask(gateway))
        await started.wait()
        await server.stop()
        assert (await in_hand).summary == "acme/conv-1"
        assert (await code_of(ask(gateway))).code is ErrorCode.DEPENDENCY_UNAVAILABLE


@pytest.mark.spec("T4")
async def test_command_while_the_bus_is_down_fails_fast_and_works_again_afterwards(own_rig: NatsRig) -> None:
    gateway, memory = await own_rig.bus("gateway"), await own_rig.bus("memory")
    async with serving(memory, echo):
        await ask(gateway)
        own_rig.kill9()
        await until(lambda: not gateway.client.is_connected)
        started = time.monotonic()
        error = await code_of(ask(gateway, timeout_s=5))
        assert error.code is ErrorCode.DEPENDENCY_UNAVAILABLE
        assert time.monotonic() - started < 2
        await own_rig.start_bare()
        await until(gateway.ready)
        await until(memory.ready)
        assert (await ask(gateway)).summary == "acme/conv-1"


async def test_server_for_a_command_that_is_not_in_the_contracts_is_refused(connect: Any) -> None:
    with pytest.raises(KeyError):
        RpcServer(await connect("memory"), "memory", {"approve-everything": echo})


async def test_commands_of_one_owner_do_not_mix(connect: Any) -> None:
    async def forget(_: Call, __: SummaryOf) -> Done:
        return Done(ok=True)

    server = RpcServer(await connect("memory"), "memory", {"get-summary": echo, "forget-summary": forget})
    await server.start()
    try:
        gateway = await connect("gateway")
        done = await RpcClient(gateway).call("memory", "forget-summary", ASK, Done, tenant="acme")
        assert done.ok
        assert (await ask(gateway)).summary == "acme/conv-1"
    finally:
        await server.stop()
