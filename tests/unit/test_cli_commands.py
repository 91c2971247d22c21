"""The command line as people meet it: help at once, clear refusals, output for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from placet.cli.main import app
from placet.cli.state_dir import StateDir
from placet.contracts.topology import USERS
from placet.identity.tokens import TokenVerifier, jwks_from_file

ROOT = Path(__file__).resolve().parents[2]
runner = CliRunner()

COMMANDS = [
    ("up",),
    ("demo",),
    ("keys",),
    ("provision",),
    ("token",),
    ("doctor",),
    ("generate",),
    ("proposals", "list"),
    ("proposals", "show"),
    ("proposals", "decide"),
    ("audit", "tail"),
    ("audit", "verify"),
    ("audit", "export"),
    ("policy", "test"),
    ("policy", "explain"),
    ("tools", "list"),
    ("docs", "import"),
    ("docs", "reindex"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_says_what_it_does(command: tuple[str, ...]) -> None:
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_help_imports_nothing_heavy() -> None:
    listing = (
        "import sys, placet.cli.main\n"
        "heavy = {'pydantic', 'httpx', 'nats', 'sqlalchemy', 'psycopg', 'regopy', 'aiohttp', 'structlog', 'joserfc'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_keys_written_are_all_that_compose_mounts_and_readable_in_containers(tmp_path: Path) -> None:
    out = tmp_path / "compose"
    result = runner.invoke(app, ["keys", "--out", str(out)])
    assert result.exit_code == 0, result.output
    mounted = {line.split("}/")[1].split('"')[0] for line in _compose().splitlines() if "PLACET_SECRETS:-" in line}
    made = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert mounted <= made, mounted - made
    assert {f"nats/{user}.seed" for user in USERS} <= made
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in out.rglob("*") if path.is_file()} == {0o644}


def test_keys_written_again_stay_the_same(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        assert runner.invoke(app, ["keys", "--out", str(tmp_path)]).exit_code == 0
        contents.append({path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()})
    assert contents[0] == contents[1]


def test_keys_give_every_service_its_own_database_role(tmp_path: Path) -> None:
    runner.invoke(app, ["keys", "--out", str(tmp_path), "--database-host", "db.internal:6543"])
    provision = dict(line.split("=", 1) for line in (tmp_path / "postgres" / "provision.env").read_text().splitlines())
    for service, role in (("agent", "agent"), ("tool-executor", "executor"), ("approval", "approval")):
        written = (tmp_path / "postgres" / f"{service}.env").read_text().splitlines()
        url = written[0]
        password = provision[f"PLACET_DATABASE_{role.upper()}_PASSWORD"]
        assert url == f"PLACET_DATABASE_URL=postgresql://placet_{role}:{password}@db.internal:6543/placet"
        if service == "tool-executor":
            reader = provision["PLACET_DATABASE_READER_PASSWORD"]
            readonly = f"postgresql://placet_reader:{reader}@db.internal:6543/placet"
            assert written[1:] == [f"PLACET_READONLY_DATABASE_URL={readonly}"]
    server = dict(line.split("=", 1) for line in (tmp_path / "postgres" / "server.env").read_text().splitlines())
    assert server["POSTGRES_PASSWORD"] in provision["PLACET_DATABASE_ADMIN_URL"]


async def test_token_printed_is_accepted_for_that_person(tmp_path: Path) -> None:
    runner.invoke(app, ["keys", "--out", str(tmp_path)])
    result = runner.invoke(app, ["token", "alice", "--tenant", "globex", "--state-dir", str(tmp_path)])
    assert result.exit_code == 0
    verifier = TokenVerifier(jwks_from_file(tmp_path / "keys" / "jwks.json"), "https://issuer.placet.local", "placet")
    principal = await verifier.verify(result.stdout.strip())
    assert (principal.tenant, principal.subject) == ("globex", "alice")


def test_token_without_an_issuer_says_how_to_get_one(tmp_path: Path) -> None:
    result = runner.invoke(app, ["token", "alice", "--state-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "placet up" in result.output


def test_tools_list_for_programs_is_one_descriptor_per_line() -> None:
    result = runner.invoke(app, ["tools", "list", "--json"])
    assert result.exit_code == 0, result.output
    tools = {tool["name"]: tool for tool in map(json.loads, result.stdout.splitlines())}
    refund = tools["refund_payment"]
    assert (refund["pack"], refund["sensitivity"], refund["risk"]) == ("business", "write", "critical_funds")
    assert refund["input_schema"]["required"] == ["order_id", "amount", "reason"]
    assert "search_knowledge" in tools


def test_tools_list_for_people_is_a_table() -> None:
    result = runner.invoke(app, ["tools", "list"])
    assert result.exit_code == 0
    line = next(line for line in result.stdout.splitlines() if "refund_payment" in line)
    assert "critical_funds" in line
    assert "irreversible" in line


def test_policy_test_runs_the_tables_through_the_embedded_engine() -> None:
    result = runner.invoke(app, ["policy", "test", "--policy-engine", "embedded", "--only", "refund"])
    assert result.exit_code == 0, result.output
    assert "cases hold (embedded, sha256:" in result.stdout


def test_policy_test_with_an_answer_that_is_not_as_written_fails_and_says_which(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    subprocess.run(["cp", "-r", str(ROOT / "policies"), str(policies)], check=True)
    tables = policies / "tables" / "grants" / "data.json"
    grants = json.loads(tables.read_text())
    grants["customer_support"]["tools"].remove("refund_payment")
    tables.write_text(json.dumps(grants))
    result = runner.invoke(app, ["policy", "test", "--policy-engine", "embedded", "--policies", str(policies)])
    assert result.exit_code == 1
    assert "refund_payment" in result.output
    assert "✗" in result.output


def test_policy_test_without_any_case_fails() -> None:
    result = runner.invoke(app, ["policy", "test", "--policy-engine", "embedded", "--only", "no such case"])
    assert result.exit_code == 1


QUESTION = {
    "subject": {
        "type": "user",
        "id": "alice",
        "properties": {"tenant": "acme", "active": False, "roles": ["customer_support"], "teams": [], "clearance": 1},
    },
    "action": {
        "name": "refund_payment",
        "properties": {"sensitivity": "write", "effect": "irreversible", "risk": "critical_funds", "stage": "propose"},
    },
    "resource": {"type": "order", "id": "A1001", "properties": {"tenant": "acme"}},
    "context": {"args": {"order_id": "A1001", "amount": 299}, "route": "http", "channel": "http"},
}


def test_policy_explain_says_effect_reasons_and_revision(tmp_path: Path) -> None:
    question = tmp_path / "input.json"
    question.write_text(json.dumps(QUESTION))
    result = runner.invoke(app, ["policy", "explain", str(question), "--policy-engine", "embedded", "--json"])
    assert result.exit_code == 0, result.output
    decision = json.loads(result.stdout)
    assert (decision["effect"], decision["code"]) == ("deny", "permission_denied")
    assert decision["reasons"] == ["subject_inactive"]
    assert decision["policy_revision"].startswith("sha256:")
    for_people = runner.invoke(app, ["policy", "explain", str(question), "--policy-engine", "embedded"])
    assert "subject_inactive" in for_people.stdout


@pytest.mark.parametrize("text", ["", "[]", "{", '{"subject": 1}'])
def test_policy_explain_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    question = tmp_path / "input.json"
    question.write_text(text)
    result = runner.invoke(app, ["policy", "explain", str(question), "--policy-engine", "embedded"])
    assert result.exit_code == 2
    assert "not" in result.output or "must" in result.output


def test_provision_without_settings_names_the_missing_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PLACET_")]:
        monkeypatch.delenv(name)
    result = runner.invoke(app, ["provision"])
    assert result.exit_code == 2
    assert "PLACET_NATS_URL" in result.output
    assert "PLACET_DATABASE_ADMIN_URL" in result.output


def test_doctor_on_this_machine_finds_what_up_needs(tmp_path: Path) -> None:
    result = runner.invoke(app, ["doctor", "--state-dir", str(tmp_path / "new"), "--json"])
    findings = {finding["what"]: finding for finding in map(json.loads, result.stdout.splitlines())}
    assert {"python", "nats-server", "postgres", "opa", "policies", "demo world", "state directory", "ports"} == set(
        findings
    )
    assert result.exit_code == 0, findings
    assert not findings["opa"]["needed"]


def test_doctor_with_a_state_directory_that_cannot_be_one_fails(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = runner.invoke(app, ["doctor", "--state-dir", str(file / "state")])
    assert result.exit_code == 1
    assert "✗ state directory" in result.stdout


def test_doctor_asked_about_an_absent_gateway_fails(tmp_path: Path) -> None:
    result = runner.invoke(app, ["doctor", "--state-dir", str(tmp_path), "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "does not answer" in result.stdout


def test_up_on_a_directory_in_use_is_refused_at_once(tmp_path: Path) -> None:
    with StateDir.at(tmp_path).locked():
        done = subprocess.run(
            [sys.executable, "-m", "placet.cli.main", "up", "--state-dir", str(tmp_path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert done.returncode == 2
    assert f"process {os.getpid()}" in done.stderr
    assert done.stdout == ""


def test_command_that_needs_to_know_who_you_are_asks_for_it(tmp_path: Path) -> None:
    result = runner.invoke(app, ["proposals", "list", "--url", "http://127.0.0.1:1", "--state-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "--as USER" in result.output


def test_command_against_an_absent_gateway_says_so_in_one_line() -> None:
    result = runner.invoke(app, ["proposals", "list", "--url", "http://127.0.0.1:1", "--token", "t"])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "no answer from" in result.output


def _compose() -> str:
    return (ROOT / "docker-compose.yml").read_text()
