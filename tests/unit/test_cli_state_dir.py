"""The state directory: one supervisor at a time, ports and secrets that last."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from placet.cli import material
from placet.cli.state_dir import StateDir, StateDirInUseError
from placet.cli.supervisor import environment, ports
from placet.cli.supervisor.ports import PortTakenError
from placet.contracts.topology import USERS

HOLDER = """
import sys, time
from pathlib import Path
from placet.cli.state_dir import StateDir
with StateDir.at(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_lock_of_a_directory_in_use_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    state = StateDir.at(tmp_path / "state")
    with state.locked(), pytest.raises(StateDirInUseError, match=f"process {os.getpid()}"), state.locked():
        pytest.fail("two hold it")
    with state.locked():
        pass


def test_lock_of_a_killed_holder_is_free_again(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StateDirInUseError, match=f"process {holder.pid}"), StateDir.at(tmp_path).locked():
            pytest.fail("two hold it")
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with StateDir.at(tmp_path).locked():
        pass


def test_ports_chosen_again_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = ports.choose(("gateway", "nats"), file)
    assert len(set(first.values())) == 2
    assert ports.choose(("gateway", "nats"), file) == first


def test_port_taken_since_last_time_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = ports.choose(("gateway", "nats"), file)
    with socket.socket() as other:
        other.bind(("127.0.0.1", first["nats"]))
        other.listen()
        second = ports.choose(("gateway", "nats"), file)
    assert second["gateway"] == first["gateway"]
    assert second["nats"] != first["nats"]


def test_port_asked_for_is_taken_and_remembered(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    wanted = ports.choose(("gateway",), tmp_path / "other.json")["gateway"]
    assert ports.choose(("gateway", "nats"), file, wanted={"gateway": wanted})["gateway"] == wanted
    assert ports.choose(("gateway", "nats"), file)["gateway"] == wanted


def test_port_asked_for_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=str(port)):
            ports.choose(("gateway",), tmp_path / "ports.json", wanted={"gateway": port})


@pytest.mark.parametrize("damaged", ["", "[]", "{", '{"nats": "x"}'])
def test_ports_file_that_is_damaged_is_replaced(tmp_path: Path, damaged: str) -> None:
    file = tmp_path / "ports.json"
    file.write_text(damaged)
    chosen = ports.choose(("nats",), file)
    assert json.loads(file.read_text()) == chosen


def test_material_made_twice_is_the_same_and_private(tmp_path: Path) -> None:
    places = (tmp_path / "keys", tmp_path / "nats", tmp_path / "keys" / "database.json")
    first = material.ensure(*places)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert material.ensure(*places) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
    secret = [
        path for path in contents if path.name.endswith((".private.jwk", ".seed")) or path.name == "database.json"
    ]
    assert len(secret) == len(material.SIGNING_KEYS) + len(USERS) + 1
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_material_of_two_installations_has_nothing_in_common(tmp_path: Path) -> None:
    made = [material.ensure(tmp_path / n / "keys", tmp_path / n / "nats", tmp_path / n / "db.json") for n in "ab"]
    assert not set(made[0].bus_keys.values()) & set(made[1].bus_keys.values())
    assert not set(made[0].database.values()) & set(made[1].database.values())
    jwks = json.loads((tmp_path / "a" / "keys" / "jwks.json").read_text())
    assert len(jwks["keys"]) == 1
    assert "d" not in jwks["keys"][0]


ADDRESSES = environment.Addresses(
    nats_url="nats://127.0.0.1:1",
    opa_url="http://127.0.0.1:2",
    gateway_port=3,
    health={"agent": 4, "tool-executor": 5, "approval": 6, "memory": 7},
    database_urls={
        "owner": "pg://owner",
        "executor": "pg://executor",
        "agent": "pg://agent",
        "approval": "pg://approval",
        "reader": "pg://reader",
    },
)


def environment_of(service: str, given: dict[str, str]) -> dict[str, str]:
    state = StateDir(Path("/state"))
    return environment.of_service(service, state, ADDRESSES, engine="opa", policies=Path("/p"), given=given)


def test_environment_of_a_service_holds_its_own_secrets_only() -> None:
    secrets = {
        "gateway": {"/state/nats/gateway.seed", "/state/keys/grant.private.jwk"},
        "agent": {"/state/nats/agent.seed", "pg://agent"},
        "tool-executor": {
            "/state/nats/tool-executor.seed",
            "/state/keys/effect.private.jwk",
            "pg://executor",
            "pg://reader",
        },
        "approval": {
            "/state/nats/approval.seed",
            "/state/keys/approval.private.jwk",
            "/state/keys/audit.private.jwk",
            "pg://approval",
        },
        "memory": {"/state/nats/memory.seed"},
    }
    for service in environment.SERVICES:
        values = environment_of(service, {}).values()
        found = {value for value in values if value.endswith((".seed", ".private.jwk")) or value.startswith("pg://")}
        assert found == secrets[service], service


def test_environment_of_a_service_passes_on_its_own_settings_and_no_strangers() -> None:
    given = {
        "PATH": "/bin",
        "https_proxy": "http://proxy",
        "LC_ALL": "C",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PLACET_AGENT_API_KEY": "model key",
        "PLACET_GATEWAY_PORT": "9",
        "PLACET_NATS_SEED": "x",
        "PLACET_LOG_LEVEL": "DEBUG",
    }
    agent, gateway = environment_of("agent", given), environment_of("gateway", given)
    assert agent["PLACET_AGENT_API_KEY"] == "model key"
    assert {"PATH", "https_proxy", "LC_ALL"} <= set(agent)
    assert not {"AWS_SECRET_ACCESS_KEY", "PLACET_NATS_SEED", "PLACET_GATEWAY_PORT"} & set(agent)
    assert "PLACET_AGENT_API_KEY" not in gateway
    assert gateway["PLACET_GATEWAY_PORT"] == "3"
    assert agent["PLACET_LOG_LEVEL"] == "DEBUG"


@pytest.mark.parametrize("given", [{}, {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/mine"}])
def test_environment_that_has_a_byte_code_cache_keeps_it(given: dict[str, str]) -> None:
    assert environment.bare(given).get("PYTHONPYCACHEPREFIX") == given.get("PYTHONPYCACHEPREFIX")


def test_environment_without_byte_code_beside_the_sources_has_a_cache_elsewhere() -> None:
    made = environment.bare({"PYTHONDONTWRITEBYTECODE": "1"})
    assert made["PYTHONPYCACHEPREFIX"].endswith(".placet/pycache")
    assert "PYTHONDONTWRITEBYTECODE" not in made


def test_environment_of_provisioning_alone_holds_the_administrator() -> None:
    passwords = {role: f"{role}-password" for role in material.DATABASE_ROLES}
    made = environment.of_provisioning(StateDir(Path("/state")), "nats://x", "pg://admin", passwords, {})
    assert made["PLACET_DATABASE_ADMIN_URL"] == "pg://admin"
    assert made["PLACET_DATABASE_OWNER_PASSWORD"] == "owner-password"
    assert made["PLACET_SEED_DEMO"] == "1"
    for service in environment.SERVICES:
        assert not {"PLACET_DATABASE_ADMIN_URL", "PLACET_DATABASE_OWNER_PASSWORD"} & set(environment_of(service, {}))
