"""Which room may import which: the contracts of `.importlinter` hold, and nobody has loosened them (C1)."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("C1")
IO_LIBRARIES = {
    "nats",
    "faststream",
    "httpx",
    "sqlalchemy",
    "psycopg",
    "fastapi",
    "starlette",
    "uvicorn",
    "aiohttp",
    "langchain_openai",
}


@pytest.fixture(scope="module")
def contracts(root: Path) -> dict[str, dict[str, list[str]]]:
    """Each contract by its id, every setting as a list of lines."""
    parser = configparser.ConfigParser()
    parser.read(root / ".importlinter", encoding="utf-8")
    return {
        section.rpartition(":")[2]: {key: value.strip().splitlines() for key, value in parser[section].items()}
        for section in parser.sections()
        if section.startswith("importlinter:contract:")
    }


def test_imports_keep_every_contract(root: Path) -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([lint, "--no-cache"], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_imports_have_no_exceptions(contracts: dict[str, dict[str, list[str]]]) -> None:
    for name, contract in contracts.items():
        assert not {key for key in contract if key.startswith("ignore")}, name
    assert set(contracts) == {
        "library-layers",
        "services-independent",
        "service-layers",
        "pure-rooms",
        "bus-client-services",
        "bus-client-library",
        "services-below-tools",
        "library-below-services",
        "no-cycles",
    }


def test_layers_are_exhaustive(contracts: dict[str, dict[str, list[str]]]) -> None:
    for name in ("library-layers", "service-layers"):
        assert contracts[name]["exhaustive"] == ["True"]
    assert contracts["service-layers"]["containers"] == ["services.*"]
    assert contracts["service-layers"]["layers"] == [
        "__main__",
        "(openapi)",
        "app",
        "handlers | adapters",
        "ports",
        "domain",
        "errors | settings",
    ]


def test_pure_rooms_forbid_every_io_library(contracts: dict[str, dict[str, list[str]]]) -> None:
    pure = contracts["pure-rooms"]
    assert set(pure["forbidden_modules"]) == IO_LIBRARIES
    assert set(pure["source_modules"]) == {"services.*.domain", "services.*.ports", "placet.contracts"}
    assert "allow_indirect_imports" not in pure


def test_library_contract_on_the_bus_client_names_every_room_but_messaging(
    root: Path, contracts: dict[str, dict[str, list[str]]]
) -> None:
    rooms = {f"placet.{path.parent.name}" for path in (root / "libs/placet").glob("*/__init__.py")}
    assert set(contracts["bus-client-library"]["source_modules"]) == rooms - {"placet.messaging"}


def test_violation_is_found_by_the_same_contract_types(tmp_path: Path) -> None:
    """Guards the tests above: a small house with one wrong import fails where the real one passes."""
    service = tmp_path / "house" / "gateway"
    service.mkdir(parents=True)
    (tmp_path / "house/__init__.py").write_text("", encoding="utf-8")
    for room in ("__init__", "domain", "app"):
        (service / f"{room}.py").write_text("", encoding="utf-8")
    config = tmp_path / "rules"
    config.write_text(
        "[importlinter]\nroot_package = house\n\n[importlinter:contract:layers]\nname = layers\ntype = layers\n"
        "exhaustive = True\ncontainers = house.*\nlayers =\n    app\n    domain\n",
        encoding="utf-8",
    )
    lint = Path(sys.executable).parent / "lint-imports"

    def passes() -> bool:
        command = [lint, config.name, "--no-cache"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False).returncode == 0

    assert passes()
    (service / "domain.py").write_text("import house.gateway.app\n", encoding="utf-8")
    assert not passes()
    (service / "domain.py").write_text("", encoding="utf-8")
    (service / "extra.py").write_text("", encoding="utf-8")
    assert not passes()
