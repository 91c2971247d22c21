"""The images of other people's programs, as the compose file runs them: they start, answer, and keep their promises."""

from __future__ import annotations

import secrets
from pathlib import Path

import httpx
import nats
import nats.errors
import nkeys
import psycopg
import pytest
from testcontainers.core.container import DockerContainer

from placet.messaging.connection import Bus, BusSettings
from placet.messaging.provision import provision
from placet.policy.bundle import digest, read_policy_files
from placet.policy.opa import OpaPolicy
from placet.testkit.containers import House, wait_for_health

pytestmark = pytest.mark.containers
READY_S = 60.0


@pytest.fixture(scope="module")
def nats_url(house: House) -> str:
    container = house.start("nats", ports=(4222,))
    return f"nats://{address(container, 4222)}"


@pytest.fixture(scope="module")
def opa_url(house: House) -> str:
    house.run("policies")
    container = house.start("opa", ports=(8181,))
    wait_for_health(container, "healthy", READY_S)
    return f"http://{address(container, 8181)}"


@pytest.fixture(scope="module")
def postgres(house: House) -> DockerContainer:
    container = house.start("postgres", ports=(5432,))
    wait_for_health(container, "healthy", READY_S)
    return container


def address(container: DockerContainer, port: int) -> str:
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"


def settings(url: str, secrets_dir: Path, user: str) -> BusSettings:
    return BusSettings(url, user, (secrets_dir / "nats" / f"{user}.seed").read_text().strip())


async def test_bus_image_with_the_deployed_configuration_creates_every_stream(nats_url: str, secrets_dir: Path) -> None:
    bus = await Bus.connect(settings(nats_url, secrets_dir, "provision"))
    try:
        created = await provision(bus)
        assert await bus.ready()
    finally:
        await bus.close()
    assert {"APPROVALS", "EFFECTS", "RUNS", "AUDIT"} <= set(created)


async def test_bus_image_with_a_seed_it_does_not_know_refuses(nats_url: str, secrets_dir: Path) -> None:
    seed = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER).decode()
    with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
        await nats.connect(nats_url, nkeys_seed_str=seed, allow_reconnect=False, max_reconnect_attempts=1)


async def test_policy_image_with_the_deployed_bundle_serves_its_revision(opa_url: str, root: Path) -> None:
    policy = await OpaPolicy.open(opa_url)
    try:
        assert await policy.ready()
        assert await policy.revision() == digest(read_policy_files(root / "policies"))
    finally:
        await policy.close()


def test_policy_image_when_somebody_adds_a_rule_over_the_api_refuses(opa_url: str) -> None:
    answer = httpx.put(f"{opa_url}/v1/policies/mine", content="package placet.authz\nallow := true")
    assert answer.status_code == 400
    assert httpx.put(f"{opa_url}/v1/data/placet/routes", json={}).status_code in {400, 404}


def test_database_image_creates_the_vector_extension(postgres: DockerContainer, secrets_dir: Path) -> None:
    with connect(postgres, password(secrets_dir)) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        row = connection.execute("SELECT '[1,2]'::vector <-> '[4,6]'::vector").fetchone()
        assert row == (5.0,)


def test_database_image_with_a_wrong_password_refuses(postgres: DockerContainer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(postgres, "wrong")


def connect(postgres: DockerContainer, word: str) -> psycopg.Connection:
    host, port = postgres.get_container_host_ip(), int(postgres.get_exposed_port(5432))
    return psycopg.connect(host=host, port=port, user="postgres", password=word, dbname="postgres", connect_timeout=5)


def password(secrets_dir: Path) -> str:
    lines = (secrets_dir / "postgres" / "server.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)["POSTGRES_PASSWORD"]
