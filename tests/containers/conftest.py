"""Fixtures of the container tests: an engine, keys of their own, and the parts of the house that a test asks for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.testkit.compose import Project, make_secrets
from placet.testkit.containers import House, engine_or_reason
from placet.testkit.requirements import required

REQUIRE = "PLACET_REQUIRE_CONTAINERS"


@pytest.fixture(scope="session")
def engine() -> None:
    """Skips where no container engine answers; fails there when PLACET_REQUIRE_CONTAINERS is set (CI)."""
    reason = engine_or_reason()
    if reason and required(REQUIRE):
        pytest.fail(f"{REQUIRE} is set, but {reason}")
    if reason:
        pytest.skip(f"{reason}: `make test-containers` brings one")


@pytest.fixture(scope="session")
def secrets_dir(engine: None) -> Iterator[Path]:
    """Keys and passwords of one installation. Not pytest's own folder, which only the user may enter."""
    with tempfile.TemporaryDirectory(prefix="placet-secrets-") as directory:
        yield make_secrets(Path(directory))


@pytest.fixture(scope="module")
def house(root: Path, secrets_dir: Path) -> Iterator[House]:
    """A network on which a module's single containers of the compose file run; all of it is gone afterwards."""
    with House(Project(root, secrets_dir)) as opened:
        yield opened
