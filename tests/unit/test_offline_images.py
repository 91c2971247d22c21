"""The builder of offline images: what it reads from locks and from the compose file, and when it builds again."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

LOCK = """\
anyio==4.16.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via httpx
nats-py[nkeys]==2.16.1 \\
    --hash=sha256:cc
tzdata==2026.6 ; sys_platform == 'win32' \\
    --hash=sha256:dd
"""


Load = Callable[[str], ModuleType]


@pytest.fixture
def module(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports a module of deploy/offline-images, which is a program and not a package, and forgets it again."""
    monkeypatch.chdir(root)
    monkeypatch.syspath_prepend(root / "deploy/offline-images")
    before = set(sys.modules)
    yield import_module
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(root / "deploy/offline-images")):
            del sys.modules[name]


def test_lock_file_is_read_without_what_other_platforms_need(module: Load, tmp_path: Path) -> None:
    lock = tmp_path / "x.txt"
    lock.write_text(LOCK)
    pins = module("wheelhouse").pins_of(lock)
    assert [(pin.name, pin.version) for pin in pins] == [("anyio", "4.16.0"), ("nats-py", "2.16.1")]
    assert "--hash=sha256:aa" in pins[0].text
    assert "--hash=sha256:bb" in pins[0].text


def test_wheels_of_a_service_travel_with_their_own_hashes(
    module: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheelhouse = module("wheelhouse")
    monkeypatch.setattr(wheelhouse, "LOCKS", tmp_path)
    pool = tmp_path / "pool"
    pool.mkdir()
    for name in ("build", "memory"):
        (tmp_path / f"{name}.txt").write_text("anyio==4.16.0 \\\n    --hash=sha256:aa\n")
    (pool / "anyio-4.16.0-py3-none-any.whl").write_bytes(b"wheel")
    (pool / "anyio-4.15.0-py3-none-any.whl").write_bytes(b"older")
    members = {inside: path for path, inside in wheelhouse.Wheelhouse(pool).members("memory")}
    assert set(members) == {
        f"wheelhouse/{name}/{file}"
        for name in ("build", "memory")
        for file in ("anyio-4.16.0-py3-none-any.whl", "wheels.txt")
    }
    digest = hashlib.sha256(b"wheel").hexdigest()
    assert members["wheelhouse/memory/wheels.txt"].read_text() == f"anyio==4.16.0 --hash=sha256:{digest}\n"


@pytest.mark.parametrize("name", ["nats", "opa", "postgres", "gateway", "tool-executor", "provision"])
def test_image_names_come_from_the_compose_file(module: Load, root: Path, name: str) -> None:
    assert f"image: {module('names').image_of(name)}\n" in (root / "docker-compose.yml").read_text()


def test_image_name_of_an_unknown_part_is_an_error(module: Load) -> None:
    with pytest.raises(LookupError, match="redis"):
        module("names").image_of("redis")


def test_content_key_changes_with_a_byte_and_a_name_but_not_with_byte_code(module: Load, tmp_path: Path) -> None:
    key = module("content").content_key
    file = tmp_path / "a.py"
    file.write_text("1")
    first = key([tmp_path])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("code")
    assert key([tmp_path]) == first
    file.write_text("2")
    second = key([tmp_path])
    file.rename(tmp_path / "b.py")
    assert len({first, second, key([tmp_path]), key([tmp_path], "word")}) == 4


def test_engine_with_a_pid_file_of_somebody_elses_process_leaves_that_alone(
    module: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dockerd.pid").write_text("1")
    module("engine").Engine(tmp_path).stop()
    assert "stopped" not in capsys.readouterr().out
    assert Path("/proc/1").exists()
