"""The Rego sources: OPA's own checks, and what two engines read differently."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from placet.contracts.tools import Risk, Route

POLICIES = Path(__file__).resolve().parents[2] / "policies"
RULES = sorted(path for path in POLICIES.glob("*.rego") if not path.stem.endswith("_test"))

DIFFERENT = {
    "`not` over a membership: name the condition": re.compile(r"\bnot\s+\S+\s+in\s"),
    "`not` over a call with a reference in it: name the condition": re.compile(r"\bnot\s+[\w.]+\([^)]*\w\.\w"),
    "a function that regopy does not know": re.compile(
        r"time\.parse_rfc3339_ns|net\.cidr|strings\.render_template|rego\.metadata|http\.send"
    ),
    "a function with a default: regopy has none": re.compile(r"^default\s+\w+\(", re.MULTILINE),
    "the clock or chance: a recorded input must replay": re.compile(r"time\.now_ns|rand\.|uuid\."),
}


@pytest.mark.parametrize(
    "arguments",
    [("test", "-b", "."), ("check", "--strict", "-b", "."), ("fmt", "--list", "--fail", ".")],
    ids=lambda arguments: arguments[0],
)
def test_sources_under_opa_are_sound(opa_binary: Path, arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [opa_binary, *arguments], cwd=POLICIES, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_rule_file_holds_nothing_that_engines_read_differently(path: Path) -> None:
    source = "\n".join(line.partition("#")[0] for line in path.read_text().splitlines())
    assert [why for why, pattern in DIFFERENT.items() if pattern.search(source)] == []


def test_lint_on_the_differences_it_was_written_for_finds_them() -> None:
    samples = (
        "not input.action.name in subject.duties",
        "not is_string(case.requester)",
        "time.parse_rfc3339_ns(x)",
        "default f(_) := false",
        "time.now_ns()",
    )
    assert [bool(pattern.search(line)) for pattern, line in zip(DIFFERENT.values(), samples, strict=True)] == [True] * 5


@pytest.mark.spec("T2", "G3")
def test_tables_know_the_routes_and_risks_of_the_contracts() -> None:
    import json

    routes = json.loads((POLICIES / "tables" / "routes" / "data.json").read_bytes())
    risks = json.loads((POLICIES / "tables" / "risks" / "data.json").read_bytes())
    assert set(routes) == {route.value for route in Route}
    assert set(risks) == {risk.value for risk in Risk}
