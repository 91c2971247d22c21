"""The shape of the house: small files, one set of rooms per service, settings read in one place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.contracts.topology import DURABLES, SERVICE_DOMAIN, USERS

MOST_LINES = 300
SHAPELESS = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "base", "misc", "shared"}
SERVICES = ("agent", "approval", "gateway", "memory", "tool_executor")
# A room is a module or a package of that name.
ROOMS = {"__init__", "__main__", "adapters", "app", "domain", "errors", "handlers", "ports", "settings"}
# The HTTP face also describes itself; `deploy/openapi.json` is made from it.
MORE_ROOMS = {"gateway": {"openapi"}}
# Programs of their own, run beside a service before or without its settings, and servers started as child processes,
# which hand their environment on.
READS_ENVIRONMENT = (
    "libs/placet/cli/",
    "libs/placet/testkit/",
    "libs/placet/messaging/server.py",
    "libs/placet/observability/probe.py",
    "libs/placet/policy/obtain.py",
    "libs/placet/policy/opa_server.py",
    "libs/placet/storage/embedded/",
)


def _sources(root: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def test_source_files_are_no_longer_than_300_lines(root: Path) -> None:
    sizes = {
        str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines())
        for path in _sources(root, "libs", "services")
    }
    longest = dict(sorted(sizes.items(), key=lambda item: -item[1])[:5])
    assert {name: lines for name, lines in sizes.items() if lines > MOST_LINES} == {}, f"longest: {longest}"


def test_modules_are_named_by_what_they_hold(root: Path) -> None:
    shapeless = [
        str(path.relative_to(root))
        for path in _sources(root, "libs", "services", "tests")
        if SHAPELESS & {path.stem, *(part.name for part in path.relative_to(root).parents)}
    ]
    assert shapeless == []


def test_test_files_have_names_of_their_own(root: Path) -> None:
    """Two of one name cannot be collected together."""
    names = Counter(path.name for path in _sources(root, "tests") if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_services_are_the_five_of_the_specification(root: Path) -> None:
    found = {path.parent.name for path in (root / "services").glob("*/__init__.py")}
    assert found == set(SERVICES)
    assert {name.replace("_", "-") for name in SERVICES} == set(USERS) - {"provision", "auditor"}
    assert set(SERVICE_DOMAIN) == set(USERS)


@pytest.mark.parametrize("service", SERVICES)
def test_service_has_the_same_rooms_as_every_other(root: Path, service: str) -> None:
    folder = root / "services" / service
    modules = {path.stem for path in folder.glob("*.py")}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not modules & packages, "a room is a module or a package, not both"
    assert modules | packages == ROOMS | MORE_ROOMS.get(service, set())


@pytest.mark.parametrize("service", SERVICES)
def test_service_has_a_short_readme(root: Path, service: str) -> None:
    readme = (root / "services" / service / "README.md").read_text(encoding="utf-8")
    assert 5 <= len(readme.splitlines()) <= 60


def _environment_reads(tree: ast.AST) -> list[int]:
    """Lines that read the environment; `os.environ["X"] = …` sets a library's switch and reads nothing."""
    switches = {
        id(target.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("environ", "getenv", "environb")
            and id(node) not in switches
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and {"environ", "getenv"} & {a.name for a in node.names}
        )
    ]


def _environment_writes(tree: ast.AST) -> bool:
    return any(
        isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute) and target.value.attr == "environ"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


def test_environment_is_read_in_settings_and_in_programs_only(root: Path) -> None:
    found = []
    for path in _sources(root, "libs", "services"):
        name = str(path.relative_to(root))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name != "settings.py" and not name.startswith(READS_ENVIRONMENT):
            found += [f"{name}:{line}" for line in _environment_reads(tree)]
        if _environment_writes(tree) and path.name != "__main__.py":
            found.append(f"{name}: sets the environment")
    assert found == []


def test_environment_reads_are_seen_by_the_test_above() -> None:
    reading = "import os\nfrom os import environ\na = os.environ['A']\nb = os.getenv('B')\nc = dict(os.environ)\n"
    assert _environment_reads(ast.parse(reading)) == [2, 3, 4, 5]
    assert _environment_reads(ast.parse("import os\nos.environ['A'] = 'x'\n")) == []
    assert _environment_writes(ast.parse("import os\nos.environ['A'] = 'x'\n"))


@pytest.mark.parametrize("service", SERVICES)
def test_settings_of_a_service_are_declared_in_one_room(root: Path, service: str) -> None:
    declaring = [
        path.name
        for path in (root / "services" / service).rglob("*.py")
        if "pydantic_settings" in path.read_text(encoding="utf-8")
    ]
    assert declaring == ["settings.py"]


def test_durables_are_named_by_owner_reaction_and_version() -> None:
    for durable in DURABLES:
        owner, _, rest = durable.name.partition("__")
        assert owner == durable.user
        assert rest.endswith("-v1")
