"""The case tables, every case on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.policy.bundle import digest, read_policy_files
from placet.policy.cases import Case, difference, load_cases
from placet.policy.engine import PolicyEngine

POLICIES = Path(__file__).resolve().parents[2] / "policies"

ROWS = {
    "admin": ("I1", "L1"),
    "approvals": ("A4",),
    "budgets": ("U3", "G2"),
    "commit": ("A8", "I1", "R4"),
    "decisions": ("T3", "G3", "T5", "A5", "I4"),
    "grants": ("I1", "T3"),
    "knowledge": ("K2",),
    "routes": ("T2",),
}

CASES = load_cases(POLICIES / "cases")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=pytest.mark.spec(*ROWS[case.name.partition(":")[0]])) for case in CASES],
)
async def test_case_on_engine_answers_as_expected(policy: PolicyEngine, case: Case) -> None:
    assert await case.run(policy) is None


async def test_every_answer_carries_the_digest_of_the_files(policy: PolicyEngine, policy_dir: Path) -> None:
    expected = digest(read_policy_files(policy_dir))
    assert await policy.revision() == expected
    one_of_each = {case.row.ask: case for case in CASES}
    assert len(one_of_each) == 5
    for case in one_of_each.values():
        answer = await case.row.answer(policy, case.world)
        assert answer.model_dump()["policy_revision"] == expected


async def test_engine_that_is_up_is_ready(policy: PolicyEngine) -> None:
    assert await policy.ready()


def test_difference_in_any_expected_part_is_named() -> None:
    answer = {"effect": "allow", "obligations": {"approvals": 1, "mask": ["email"]}}
    assert difference({"effect": "allow", "obligations": {"approvals": 1}}, answer) is None
    assert difference({"effect": "deny"}, answer) == "answer.effect: expected 'deny', got 'allow'"
    assert "answer.obligations.mask" in (difference({"obligations": {"mask": []}}, answer) or "")
    assert "answer.risk" in (difference({"risk": "low"}, answer) or "")


def test_table_with_an_unknown_word_is_refused(tmp_path: Path) -> None:
    (tmp_path / "world.json").write_bytes((POLICIES / "cases" / "world.json").read_bytes())
    (tmp_path / "x.json").write_text(
        '{"about": "", "ask": "decide", "rows": [{"name": "n", "who": "alice", "tool": "search_knowledge", '
        '"route": "direct", "expects": {}, "expect": {}}]}'
    )
    with pytest.raises(ValueError, match="expects"):
        load_cases(tmp_path)
