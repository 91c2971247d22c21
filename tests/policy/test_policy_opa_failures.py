"""An OPA that is down, slow, strange or dying: denied with `policy_unavailable`, and a reason that tells why."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from placet.policy.bundle import build_bundle
from placet.policy.engine import PolicyEngine
from placet.policy.opa import OpaPolicy
from placet.policy.port import Failure
from tests.policy.policy_questions import assert_denied, assert_nothing_is_granted, search

pytestmark = pytest.mark.spec("T3", "T4")

OpaOn = Callable[..., Awaitable[tuple[Any, PolicyEngine]]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_decision_with_opa_down_is_denied_at_once() -> None:
    policy = await OpaPolicy.open(f"http://127.0.0.1:{free_port()}", timeout_s=5.0)
    async with asyncio.timeout(2.0):
        await assert_nothing_is_granted(policy, Failure.DOWN)
    assert await policy.revision() == "unknown"
    await policy.close()


async def test_decision_with_opa_slow_is_denied_in_time() -> None:
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        policy = await OpaPolicy.open(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_s=0.1)
        started = asyncio.get_running_loop().time()
        await assert_nothing_is_granted(policy, Failure.SLOW)
        assert asyncio.get_running_loop().time() - started < 6 * 0.1 + 1.0
        await policy.close()


REVISION = {"bundles": {"b": {"revision": "sha256:x"}}}
ALLOW: dict[str, Any] = {"effect": "allow", "code": None, "reasons": [], "risk": "low", "obligations": {}}


def answer(result: Any, provenance: Any = REVISION) -> tuple[int, str]:
    return 200, json.dumps({"provenance": provenance, "result": result})


STRANGE_ANSWERS: dict[str, tuple[tuple[int, str], Failure]] = {
    "no JSON": ((200, "<html>"), Failure.BAD_SHAPE),
    "no object": ((200, "[]"), Failure.BAD_SHAPE),
    "no result": ((200, json.dumps({"provenance": REVISION})), Failure.UNDEFINED),
    "an error": ((500, json.dumps({"code": "internal_error"})), Failure.FAILED),
    "a redirect to nowhere": ((404, "{}"), Failure.FAILED),
    "no provenance": ((200, json.dumps({"result": ALLOW})), Failure.BAD_SHAPE),
    "no bundle": (answer(ALLOW, {"bundles": {}}), Failure.BAD_SHAPE),
    "no revision": (answer(ALLOW, {"bundles": {"b": {}}}), Failure.BAD_SHAPE),
    "an empty revision": (answer(ALLOW, {"bundles": {"b": {"revision": ""}}}), Failure.BAD_SHAPE),
    "two bundles": (answer(ALLOW, {"bundles": {"a": {"revision": "1"}, "b": {"revision": "2"}}}), Failure.BAD_SHAPE),
    "just true": (answer(True), Failure.BAD_SHAPE),
    "null": (answer(None), Failure.BAD_SHAPE),
    "an unknown effect": (answer({**ALLOW, "effect": "permit"}), Failure.BAD_SHAPE),
    "an unknown obligation": (answer({**ALLOW, "obligations": {"watermark": True}}), Failure.BAD_SHAPE),
    "an obligation of another type": (answer({**ALLOW, "obligations": {"challenge": "no"}}), Failure.BAD_SHAPE),
    "an unknown field": (answer({**ALLOW, "unless": "sunday"}), Failure.BAD_SHAPE),
    "an unknown risk": (answer({**ALLOW, "risk": "none"}), Failure.BAD_SHAPE),
    "an allowance with a code": (answer({**ALLOW, "code": "permission_denied"}), Failure.BAD_SHAPE),
    "an approval nobody can give": (
        answer({**ALLOW, "effect": "require_approval", "obligations": {"approver_roles": []}}),
        Failure.BAD_SHAPE,
    ),
    "an approval by nobody": (
        answer({**ALLOW, "effect": "require_approval", "obligations": {"approver_roles": ["x"], "approvals": 0}}),
        Failure.BAD_SHAPE,
    ),
}


@pytest.fixture
async def strange_opa() -> AsyncIterator[tuple[OpaPolicy, dict[str, Any]]]:
    """An OPA that says what it is told to."""
    said: dict[str, Any] = {}

    async def say(_: web.Request) -> web.Response:
        status, body = said["answer"]
        return web.Response(status=status, text=body, content_type="application/json")

    application = web.Application()
    application.router.add_post("/v1/data/{rule:.*}", say)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    policy = await OpaPolicy.open(f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield policy, said
    await policy.close()
    await runner.cleanup()


@pytest.mark.parametrize("name", STRANGE_ANSWERS)
async def test_strange_answer_of_opa_is_denied(strange_opa: tuple[OpaPolicy, dict[str, Any]], name: str) -> None:
    policy, said = strange_opa
    said["answer"], failure = STRANGE_ANSWERS[name]
    assert_denied(await policy.decide(search()), failure)


async def test_sound_answer_of_the_same_opa_is_allowed(strange_opa: tuple[OpaPolicy, dict[str, Any]]) -> None:
    policy, said = strange_opa
    said["answer"] = answer(ALLOW)
    decision = await policy.decide(search())
    assert (decision.effect, decision.policy_revision) == ("allow", "sha256:x")


async def test_opa_that_was_restarted_answers_the_next_question(
    opa_on: OpaOn, policy_dir: Path, tmp_path: Path
) -> None:
    build_bundle(policy_dir, tmp_path)
    first, policy = await opa_on(tmp_path)
    assert (await policy.decide(search())).effect == "allow"
    await first.stop()
    assert_denied(await policy.decide(search()), Failure.DOWN)
    await opa_on(tmp_path, first.port)
    assert (await policy.decide(search())).effect == "allow"


async def test_opa_that_was_restarted_between_two_questions_is_asked_again(
    opa_on: OpaOn, policy_dir: Path, tmp_path: Path
) -> None:
    """The kept connection is dead by then; the caller does not notice."""
    build_bundle(policy_dir, tmp_path)
    first, policy = await opa_on(tmp_path)
    assert (await policy.decide(search())).effect == "allow"
    await first.stop()
    await opa_on(tmp_path, first.port)
    assert (await policy.decide(search())).effect == "allow"


async def test_kept_connection_that_dies_with_a_question_is_replaced() -> None:
    """A server that ends a kept connection just as it is used again: asked once more, on a new one."""
    _, body = answer(ALLOW)
    reply = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    connections = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(reply)
        await writer.drain()
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        policy = await OpaPolicy.open(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        effects = [(await policy.decide(search())).effect for _ in range(3)]
        await policy.close()
    assert effects == ["allow"] * 3
    assert connections == 3
