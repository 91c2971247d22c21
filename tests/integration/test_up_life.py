"""The life of `placet up`: stopped, killed and started again on the same directory."""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from placet.testkit.placet_process import PlacetProcess
from placet.testkit.processes import alive
from placet.testkit.refunds import approve, ask, finished, refunds
from placet.testkit.waiting import until


@pytest.fixture
async def state() -> AsyncIterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="placet-life-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname or "", parts.port or 0)) == 0


@pytest.mark.timeout(300)
@pytest.mark.spec("A1", "A10")
async def test_stopped_house_leaves_nothing_running_and_starts_again_with_its_data(state: Path) -> None:
    first = await PlacetProcess.start(state)
    async with first.client("alice") as alice, first.client("dave") as dave:
        done = await ask(alice, "A1002", "20")
        await approve(dave, done.proposal_id)
        assert (await finished(alice, done))["finish_reason"] == "success"
        waiting = await ask(alice, "A1003", "30")
    family = first.family()

    assert await first.stop(signal.SIGTERM) == 0
    assert await first.further_output() == b""
    assert not [pid for pid in family if alive(pid)]
    assert not listens(first.ready.gateway)
    assert not listens(first.ready.nats)

    second = await PlacetProcess.start(state)
    try:
        assert (second.ready.gateway, second.ready.nats) == (first.ready.gateway, first.ready.nats)
        second.ready.tokens["alice"] = first.ready.tokens["alice"]  # a token of before is still good
        async with second.client("alice") as alice, second.client("dave") as dave:
            assert await refunds(alice, "A1002") == [20]
            await approve(dave, waiting.proposal_id)
            assert (await finished(alice, waiting))["finish_reason"] == "success"
            assert await refunds(alice, "A1003") == [30]
    finally:
        assert await second.stop(signal.SIGINT) == 0


@pytest.mark.timeout(300)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ties a child's life to its parent's")
async def test_supervisor_killed_by_force_leaves_no_orphans_and_can_be_started_again(state: Path) -> None:
    first = await PlacetProcess.start(state)
    family = first.family()
    assert len(family) >= 8
    psutil.Process(first.pid).kill()
    await first.stop()
    await until(lambda: not [pid for pid in family if alive(pid)])

    second = await PlacetProcess.start(state)
    try:
        async with second.client("alice") as alice:
            assert all((await alice.readiness()).values())
    finally:
        assert await second.stop() == 0


@pytest.mark.timeout(120)
async def test_up_stopped_before_it_is_ready_leaves_nothing_running(state: Path) -> None:
    import asyncio

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "placet.cli.main", "up", "--state-dir", str(state)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    processes = state / "processes.json"
    await until(lambda: processes.exists() and "postgres" in processes.read_text(), 60)
    family = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
    process.terminate()
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert out == b""
    assert process.returncode == 0
    assert not [pid for pid in family if alive(pid)]


@pytest.mark.timeout(120)
async def test_up_on_a_port_in_use_says_so_and_ends(state: Path) -> None:
    import asyncio

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "placet.cli.main", "up", "--state-dir", str(state), "--port", str(port)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert out == b""
    assert f"port {port} is in use" in err.decode()
