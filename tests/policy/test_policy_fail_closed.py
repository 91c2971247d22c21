"""Whatever policy does instead of answering: denied with `policy_unavailable`, and a reason that tells why."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from placet.contracts.errors import ErrorCode
from placet.contracts.policy import (
    Action,
    ActionProperties,
    BudgetFacts,
    Context,
    Decision,
    DecisionInput,
    Obligations,
    ProposalFacts,
    Subject,
    SubjectProperties,
)
from placet.contracts.tools import Risk, Route, Sensitivity
from placet.policy.engine import PolicyEngine
from placet.policy.opa import OpaPolicy
from placet.policy.opa_server import OpaServer
from placet.policy.port import Failure, Unanswered
from placet.policy.rego import PolicyLoadError, RegoPolicy

pytestmark = pytest.mark.spec("T3", "T4")

Serve = Callable[[Path], Awaitable[PolicyEngine]]

ALICE = Subject(id="alice", properties=SubjectProperties(tenant="acme", active=True, roles=("employee",)))
BUDGET = BudgetFacts.model_validate({"tool_calls": {"used": 0, "limit": 12}, "spend": {"used": 0, "limit": 1}})
PROPOSAL = ProposalFacts(
    id="p-1",
    tenant="acme",
    requester="bob",
    tool="refund_payment",
    risk=Risk.CRITICAL_FUNDS,
    obligations=Obligations(approver_roles=("employee",)),
)


def search(args: dict[str, Any] | None = None) -> DecisionInput:
    return DecisionInput(
        subject=ALICE,
        action=Action(
            name="search_knowledge", properties=ActionProperties(sensitivity=Sensitivity.READ, risk=Risk.LOW)
        ),
        context=Context(
            args=args or {},
            route=Route.FIXED_RAG,
            channel="chat",
            agent="assistant",
            manifest="assistant",
            budget=BUDGET,
        ),
    )


def assert_denied(decision: Decision, failure: Failure) -> None:
    assert decision.effect == "deny"
    assert decision.code is ErrorCode.POLICY_UNAVAILABLE
    assert decision.reasons == (failure.value,)


async def assert_nothing_is_granted(policy: PolicyEngine, failure: Failure) -> None:
    """Every question, not only the first."""
    assert_denied(await policy.decide(search()), failure)
    bound = await policy.bound_tools(ALICE, Route.HTTP, channel="http")
    eligibility = await policy.who_may_decide(ALICE, "approve", PROPOSAL)
    scope = await policy.knowledge_scope(ALICE)
    duty = await policy.admin(ALICE, "audit.read")
    assert (bound.tools, bound.code) == ((), ErrorCode.POLICY_UNAVAILABLE)
    assert (eligibility.allowed, eligibility.code) == (False, ErrorCode.POLICY_UNAVAILABLE)
    assert (scope.visible, scope.principals, scope.code) == (False, None, ErrorCode.POLICY_UNAVAILABLE)
    assert (duty.allowed, duty.code) == (False, ErrorCode.POLICY_UNAVAILABLE)
    for answer in (bound, eligibility, scope, duty):
        assert answer.reasons == (failure.value,)
    assert not await policy.ready()


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


STRANGE_RULES: dict[str, tuple[str, Failure]] = {
    "an unknown obligation": ('"obligations": {"watermark": true}', Failure.BAD_SHAPE),
    "an unknown effect": ('"effect": "permit"', Failure.BAD_SHAPE),
    "a denial without a code": ('"effect": "deny"', Failure.BAD_SHAPE),
}


@pytest.mark.parametrize("name", STRANGE_RULES)
async def test_strange_policy_on_engine_is_denied(serve: Serve, own_policies: Path, name: str) -> None:
    change, failure = STRANGE_RULES[name]
    rule = f'object.union({{"effect": "allow", "risk": "low", "reasons": [], "obligations": {{}}}}, {{{change}}})'
    (own_policies / "authz.rego").write_text(f"package placet.authz\n\ndecision := {rule}\n")
    policy = await serve(own_policies)
    assert_denied(await policy.decide(search()), failure)


async def test_rule_that_is_undefined_for_an_input_is_denied(serve: Serve, own_policies: Path) -> None:
    (own_policies / "authz.rego").write_text('package placet.authz\n\ndecision := "x" if not input.subject\n')
    policy = await serve(own_policies)
    assert_denied(await policy.decide(search()), Failure.UNDEFINED)


async def test_rules_that_contradict_each_other_are_denied(serve: Serve, own_policies: Path) -> None:
    rules = (
        'decision := "x" if not input.subject\n\ndecision := "a" if input.subject\n\ndecision := "b" if input.action'
    )
    (own_policies / "authz.rego").write_text(f"package placet.authz\n\n{rules}\n")
    policy = await serve(own_policies)
    assert_denied(await policy.decide(search()), Failure.FAILED)


async def test_unknown_entry_point_is_undefined(policy: PolicyEngine) -> None:
    evaluation = await policy.evaluate("placet.nowhere.decision", {})
    assert isinstance(evaluation, Unanswered)
    assert evaluation.failure is Failure.UNDEFINED
    assert evaluation.revision == await policy.revision()


@pytest.mark.parametrize("value", [2**70, "\ud83d", -(2**64)], ids=["large", "half a character", "small"])
async def test_argument_that_engines_would_misread_is_denied(policy: PolicyEngine, value: Any) -> None:
    assert_denied(await policy.decide(search({"query": value})), Failure.BAD_INPUT)


async def test_slow_rule_in_process_is_denied_in_time(own_policies: Path) -> None:
    slow = "[1 | some a in numbers.range(1, 400); some b in numbers.range(1, 400); a * b == -1]"
    rule = f'decision := "x" if not input.subject\n\ndecision := {{"n": count({slow})}} if input.subject\n'
    (own_policies / "authz.rego").write_text(f"package placet.authz\n\n{rule}")
    policy = await RegoPolicy.open(own_policies, timeout_s=0.05)
    async with asyncio.timeout(2.0):
        assert_denied(await policy.decide(search()), Failure.SLOW)
    await policy.close()


async def test_closed_engine_denies(serve: Serve, policy_dir: Path) -> None:
    policy = await serve(policy_dir)
    assert (await policy.decide(search())).effect == "allow"
    await policy.close()
    await assert_nothing_is_granted(policy, Failure.DOWN)
    await policy.close()


@pytest.mark.parametrize(
    "source",
    ["package placet.authz\n\ndecision := ", "package placet.authz\n\ndecision := 1 if input.x\n", "package other\n"],
    ids=["no Rego", "no default", "no such rule"],
)
async def test_policies_that_cannot_answer_do_not_load(own_policies: Path, source: str) -> None:
    (own_policies / "authz.rego").write_text(source)
    with pytest.raises(PolicyLoadError):
        await RegoPolicy.open(own_policies)


async def test_table_that_is_no_json_does_not_load(own_policies: Path) -> None:
    (own_policies / "tables" / "limits" / "data.json").write_text("{")
    with pytest.raises(PolicyLoadError):
        await RegoPolicy.open(own_policies)


async def test_opa_that_was_restarted_answers_the_next_question(
    opa_binary: Path, policy_dir: Path, tmp_path: Path
) -> None:
    from placet.policy.bundle import build_bundle

    build_bundle(policy_dir, tmp_path)
    first = await OpaServer.start(opa_binary, tmp_path, log_file=tmp_path / "opa.log")
    policy = await OpaPolicy.open(first.url)
    assert (await policy.decide(search())).effect == "allow"
    await first.stop()
    assert_denied(await policy.decide(search()), Failure.DOWN)
    second = await OpaServer.start(opa_binary, tmp_path, log_file=tmp_path / "opa.log", port=first.port)
    assert (await policy.decide(search())).effect == "allow"
    await policy.close()
    await second.stop()
