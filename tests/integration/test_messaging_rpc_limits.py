"""Commands over a real server: bounded in time, in number and in size."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from placet.contracts import subjects
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.runs import Summary, SummaryOf
from placet.messaging.rpc import DEADLINE_HEADER, MAX_REPLY_BYTES, Call
from placet.testkit.waiting import until
from tests.integration.rpc_steps import _raw, _raw_code, ask, code_of, echo, serving


@pytest.mark.spec("T4")
async def test_command_answered_too_late_is_a_timeout(connect: Any) -> None:
    async def slow(call: Call, command: SummaryOf) -> Summary:
        await asyncio.sleep(0.8)
        return await echo(call, command)

    async with serving(await connect("memory"), slow):
        started = time.monotonic()
        error = await code_of(ask(await connect("gateway"), timeout_s=0.3))
    assert error.code is ErrorCode.TIMEOUT
    assert time.monotonic() - started < 2


async def test_handler_knows_how_long_its_caller_waits(connect: Any) -> None:
    remaining: list[float] = []

    async def handler(call: Call, command: SummaryOf) -> Summary:
        remaining.append(call.remaining_s())
        return await echo(call, command)

    async with serving(await connect("memory"), handler):
        gateway = await connect("gateway")
        await ask(gateway, timeout_s=3)
        await ask(gateway, timeout_s=60)
    assert 2.5 < remaining[0] <= 3
    assert 59 < remaining[1] <= 60


async def test_handler_is_not_run_for_a_caller_that_has_given_up(connect: Any) -> None:
    handled: list[str] = []
    release = asyncio.Event()

    async def handler(call: Call, command: SummaryOf) -> Summary:
        handled.append(command.conversation_id)
        await release.wait()
        return await echo(call, command)

    gateway = await connect("gateway")
    async with serving(await connect("memory"), handler, concurrency=1):
        first = asyncio.create_task(ask(gateway, timeout_s=5))
        await until(lambda: handled == ["conv-1"])
        late = SummaryOf(grant="g", conversation_id="gave-up")
        assert (await code_of(ask(gateway, late, timeout_s=0.2))).code is ErrorCode.TIMEOUT
        await asyncio.sleep(0.1)  # the callee's clock for this call started a moment later
        release.set()
        await first
        await ask(gateway, SummaryOf(grant="g", conversation_id="next"))
    assert handled == ["conv-1", "next"]


@pytest.mark.spec("T4")
async def test_service_beyond_its_limit_answers_rate_limited_and_recovers(connect: Any) -> None:
    release = asyncio.Event()

    async def handler(call: Call, command: SummaryOf) -> Summary:
        await release.wait()
        return await echo(call, command)

    gateway = await connect("gateway")
    async with serving(await connect("memory"), handler, concurrency=2):
        calls = [asyncio.create_task(ask(gateway, timeout_s=10)) for _ in range(40)]
        await until(lambda: sum(call.done() for call in calls) == 24, what="what is beyond 2 x 8 to be refused")
        release.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        refused = [result for result in results if isinstance(result, PlacetError)]
        assert {error.code for error in refused} == {ErrorCode.RATE_LIMITED}
        assert all(error.retryable for error in refused)
        assert len(results) - len(refused) == 16
        assert (await ask(gateway)).summary == "acme/conv-1"


async def test_service_runs_no_more_handlers_at_once_than_allowed(connect: Any) -> None:
    running, most = 0, 0

    async def handler(call: Call, command: SummaryOf) -> Summary:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return await echo(call, command)

    gateway = await connect("gateway")
    async with serving(await connect("memory"), handler, concurrency=3):
        await asyncio.gather(*(ask(gateway) for _ in range(20)))
    assert most == 3


@pytest.mark.parametrize("value", ["", "soon", "-5", "1e3", "²", "9" * 400])
async def test_deadline_that_cannot_be_read_is_no_crash(connect: Any, value: str) -> None:
    async with serving(await connect("memory"), echo):
        subject = subjects.command("acme", "memory", "get-summary")
        code = await _raw_code(await connect("gateway"), subject, _raw("acme"), {DEADLINE_HEADER: value})
    assert code is None


async def test_answer_beyond_the_limit_is_payload_too_large(connect: Any) -> None:
    async def big(_: Call, command: SummaryOf) -> Summary:
        return Summary(summary="x" * (MAX_REPLY_BYTES if command.conversation_id == "big" else 800_000), updated_at="")

    async with serving(await connect("memory"), big):
        gateway = await connect("gateway")
        assert len((await ask(gateway)).summary) == 800_000
        error = await code_of(ask(gateway, SummaryOf(grant="g", conversation_id="big")))
    assert error.code is ErrorCode.PAYLOAD_TOO_LARGE
