"""Policies that do not answer: denied with `policy_unavailable`, and a reason that tells why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from placet.policy.engine import PolicyEngine
from placet.policy.port import Failure, Unanswered
from placet.policy.rego import PolicyLoadError, RegoPolicy
from tests.policy.policy_questions import assert_denied, assert_nothing_is_granted, search

pytestmark = pytest.mark.spec("T3", "T4")

Serve = Callable[[Path], Awaitable[PolicyEngine]]

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
