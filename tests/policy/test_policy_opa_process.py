"""The OPA child process, which binary and which engine is taken, and where the binary comes from."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from placet.policy.bundle import build_bundle
from placet.policy.obtain import PINNED_FOR_OLDER_GO, ObtainError, obtain
from placet.policy.opa import OpaPolicy
from placet.policy.opa_binary import PINNED, find_opa, suits
from placet.policy.opa_server import OpaServer, OpaStartError
from placet.policy.select import Engine, EngineMissingError, open_policy, select_engine


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def pretended_opa(path: Path, version: str) -> Path:
    return script(path, f'echo "Version: {version}"')


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which there is nothing but what the test puts there."""
    directory = tmp_path / "path"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


@pytest.fixture
async def server(opa_binary: Path, policy_dir: Path, tmp_path: Path) -> AsyncIterator[OpaServer]:
    build_bundle(policy_dir, tmp_path / "bundle")
    started = await OpaServer.start(opa_binary, tmp_path / "bundle", log_file=tmp_path / "logs" / "opa.log")
    yield started
    await started.stop()


async def test_opa_on_sigterm_ends_at_once(server: OpaServer) -> None:
    assert server.running
    os.kill(server.pid, 0)
    async with asyncio.timeout(30):
        await server.stop(grace_s=60)
    assert not server.running
    assert await server.wait() == 0
    await server.stop()


async def test_opa_over_its_api_takes_no_rules_or_data(server: OpaServer) -> None:
    async with aiohttp.ClientSession() as session:
        rule = await session.put(f"{server.url}/v1/policies/evil", data="package placet.evil\n\nx := 1\n")
        table = await session.put(f"{server.url}/v1/data/tables/limits", json={"influence": {"gate": False}})
        elsewhere = await session.put(f"{server.url}/v1/data/anything", json={})
    assert (rule.status, table.status, elsewhere.status) == (400, 400, 400)
    policy = await OpaPolicy.open(server.url)
    assert await policy.ready()
    await policy.close()


async def test_opa_without_a_bundle_does_not_start(opa_binary: Path, tmp_path: Path) -> None:
    with pytest.raises(OpaStartError, match=r"bundle\.tar\.gz"):
        await OpaServer.start(opa_binary, tmp_path, log_file=tmp_path / "opa.log", ready_timeout_s=5)


async def test_opa_that_never_gets_ready_is_stopped(policy_dir: Path, tmp_path: Path) -> None:
    sleeper = script(tmp_path / "opa", f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(OpaStartError):
        await OpaServer.start(sleeper, tmp_path, log_file=tmp_path / "opa.log", ready_timeout_s=0.3)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(("version", "right"), [(PINNED, True), ("1.4.0", True), ("1.3.9", False), ("0.70.0", False)])
def test_binary_of_a_version_suits_from_the_oldest_on(tmp_path: Path, version: str, right: bool) -> None:
    assert suits(pretended_opa(tmp_path / "opa", version)) is right


def test_binary_that_is_something_else_does_not_suit(tmp_path: Path) -> None:
    assert not suits(script(tmp_path / "opa", "echo hello"))
    assert not suits(script(tmp_path / "opa2", "exit 1"))
    assert not suits(tmp_path / "absent")


def test_opa_on_the_path_comes_before_the_state_directory(bare_path: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert find_opa(state) is None
    kept = pretended_opa(state / "bin" / "opa", PINNED)
    assert find_opa(state) == kept
    on_path = pretended_opa(bare_path / "opa", "1.5.0")
    assert find_opa(state) == on_path
    pretended_opa(bare_path / "opa", "0.60.0")
    assert find_opa(state) == kept


def test_engine_choice_takes_opa_only_where_it_is(bare_path: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert select_engine("auto", state) == select_engine("embedded", state) == Engine("embedded")
    with pytest.raises(EngineMissingError):
        select_engine("opa", state)
    binary = pretended_opa(state / "bin" / "opa", PINNED)
    assert select_engine("auto", state) == select_engine("opa", state) == Engine("opa", binary)
    assert select_engine("embedded", state) == Engine("embedded")


async def test_service_asked_for_opa_never_falls_back(policy_dir: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    remote = await open_policy("opa", policy_dir=policy_dir, opa_url=nowhere)
    automatic = await open_policy("auto", policy_dir=policy_dir, opa_url=nowhere)
    embedded = await open_policy("embedded", policy_dir=policy_dir, opa_url=nowhere)
    assert [one.engine for one in (remote, automatic, embedded)] == ["opa", "embedded", "embedded"]
    assert not await remote.ready()
    for one in (remote, automatic, embedded):
        await one.close()


async def test_service_on_auto_takes_the_opa_that_answers(server: OpaServer, policy_dir: Path) -> None:
    policy = await open_policy("auto", policy_dir=policy_dir, opa_url=server.url)
    assert policy.engine == "opa"
    await policy.close()


async def test_opa_url_without_host_or_scheme_is_refused() -> None:
    for url in ("127.0.0.1:8181", "ftp://x", "http://", ""):
        with pytest.raises(ValueError, match="not an OPA URL"):
            await OpaPolicy.open(url)


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **more}


def test_obtaining_takes_what_is_there(bare_path: Path, tmp_path: Path) -> None:
    there = pretended_opa(bare_path / "opa", PINNED)
    assert obtain(tmp_path / "state", environ()) == there


GO = """printf '%s\\n' "$CGO_ENABLED" "$GOBIN" "$*" >> "{log}"
case "$*" in *@v{works}) printf '#!/bin/sh\\necho Version: {works}\\n' > "$GOBIN/opa"; {chmod} +x "$GOBIN/opa";;
*) echo "needs a newer go" >&2; exit 1;; esac"""


@pytest.mark.parametrize("works", [PINNED, PINNED_FOR_OLDER_GO])
def test_obtaining_with_go_builds_the_pinned_module(bare_path: Path, tmp_path: Path, works: str) -> None:
    log = tmp_path / "log"
    script(bare_path / "go", GO.format(log=log, works=works, chmod="/bin/chmod"))
    assert obtain(tmp_path / "state", environ()) == tmp_path / "state" / "bin" / "opa"
    said = log.read_text().splitlines()
    assert said[0] == "0"
    assert said[1] == str(tmp_path / "state" / "bin")
    assert said[-1].endswith(f" github.com/open-policy-agent/opa@v{works}")


def test_obtaining_with_a_go_that_cannot_build_says_why(bare_path: Path, tmp_path: Path) -> None:
    script(bare_path / "go", GO.format(log=tmp_path / "log", works="9.9.9", chmod="/bin/chmod"))
    with pytest.raises(ObtainError, match="needs a newer go"):
        obtain(tmp_path / "state", environ())


RELEASE = b'#!/bin/sh\necho "Version: 1.22.4"\n'


@pytest.fixture
async def release_url() -> AsyncIterator[str]:
    async def give(_: web.Request) -> web.Response:
        return web.Response(body=RELEASE)

    application = web.Application()
    application.router.add_get("/opa", give)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/opa"
    await runner.cleanup()


async def download(state: Path, **variables: str) -> Path:
    return await asyncio.to_thread(obtain, state, environ(**variables))


async def test_obtaining_a_release_with_its_digest_keeps_it(bare_path: Path, tmp_path: Path, release_url: str) -> None:
    checksum = hashlib.sha256(RELEASE).hexdigest().upper()
    found = await download(tmp_path, PLACET_OPA_RELEASE_URL=release_url, PLACET_OPA_RELEASE_SHA256=checksum)
    assert found.read_bytes() == RELEASE
    assert suits(found)


async def test_obtaining_a_release_with_another_digest_keeps_nothing(
    bare_path: Path, tmp_path: Path, release_url: str
) -> None:
    with pytest.raises(ObtainError, match="not the expected"):
        await download(tmp_path, PLACET_OPA_RELEASE_URL=release_url, PLACET_OPA_RELEASE_SHA256="0" * 64)
    assert os.listdir(tmp_path / "bin") == []


async def test_obtaining_a_release_without_a_digest_is_refused(
    bare_path: Path, tmp_path: Path, release_url: str
) -> None:
    with pytest.raises(ObtainError, match="without a checksum"):
        await download(tmp_path, PLACET_OPA_RELEASE_URL=release_url)


async def test_obtaining_without_any_means_says_what_to_do(bare_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ObtainError, match="PLACET_OPA_RELEASE_URL"):
        await download(tmp_path)
    with pytest.raises(ObtainError, match="not an http"):
        await download(tmp_path, PLACET_OPA_RELEASE_URL="file:///etc/passwd", PLACET_OPA_RELEASE_SHA256="0" * 64)
