"""Every image of ours against the real bus, policy engine and database: it becomes ready, and it is locked down."""

from __future__ import annotations

import pytest
from testcontainers.core.container import DockerContainer

from placet.testkit.compose import SERVICES
from placet.testkit.containers import House, wait_for_health

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
READY_S = 90.0
_LIST_SERVICES = "import pkgutil, services; print(*pkgutil.iter_modules(services.__path__))"


@pytest.fixture(scope="module")
def parts(house: House) -> dict[str, DockerContainer]:
    """What the services stand on, provisioned with the demo world."""
    started = {name: house.start(name) for name in ("nats", "postgres")}
    house.run("policies")
    started["opa"] = house.start("opa")
    for name in ("postgres", "opa"):
        wait_for_health(started[name], "healthy", READY_S)
    house.run("provision", limit_s=180)
    return started


@pytest.fixture(scope="module")
def services(house: House, parts: dict[str, DockerContainer]) -> dict[str, DockerContainer]:
    """All five at once: a service may need another one before it calls itself ready."""
    return {name: house.start(name) for name in SERVICES}


@pytest.mark.parametrize("name", SERVICES)
def test_service_image_with_its_parts_up_becomes_healthy(services: dict[str, DockerContainer], name: str) -> None:
    wait_for_health(services[name], "healthy", READY_S)


@pytest.mark.parametrize("name", SERVICES)
def test_service_image_as_deployed_runs_as_nobody_on_a_read_only_root(
    services: dict[str, DockerContainer], name: str
) -> None:
    container = services[name]
    assert said(container, "id -u") == "10001"
    assert container.exec("touch /app/x").exit_code != 0
    assert container.exec("touch /tmp/x /state/x").exit_code == 0
    assert said(container, "grep CapEff /proc/1/status").split()[1] == "0" * 16
    assert said(container, "grep NoNewPrivs /proc/1/status").split()[1] == "1"


@pytest.mark.parametrize("name", SERVICES)
def test_service_image_holds_its_own_service_and_no_other(services: dict[str, DockerContainer], name: str) -> None:
    listed = said(services[name], f"python -c '{_LIST_SERVICES}'")
    assert listed.count("ispkg=True") == 1
    assert f"name='{name.replace('-', '_')}'" in listed
    assert services[name].exec("python -m pip --version").exit_code != 0


def test_service_image_when_the_bus_goes_away_is_not_ready_and_recovers_by_itself(
    services: dict[str, DockerContainer], parts: dict[str, DockerContainer]
) -> None:
    wait_for_health(services["approval"], "healthy", READY_S)
    bus = parts["nats"].get_wrapped_container()
    bus.stop(timeout=10)
    try:
        wait_for_health(services["approval"], "unhealthy", READY_S)
    finally:
        bus.start()
    wait_for_health(services["approval"], "healthy", READY_S)


def said(container: DockerContainer, command: str) -> str:
    """What a command inside the container prints. Fails the test when the command fails."""
    code, output = container.exec(command)
    text: str = output.decode().strip()
    assert code == 0, text
    return text
