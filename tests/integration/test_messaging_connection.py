"""The connection and the provisioned streams on a real server: away, back, and what no one may undo."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import nats.errors
import nats.js.errors
import pytest

from placet.contracts.topology import BUCKETS, DURABLES, OBJECT_BUCKETS, STREAMS
from placet.messaging.connection import Bus, BusSettings, read_seed
from placet.messaging.credentials import write_users
from placet.messaging.provision import provision
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until


async def test_bus_killed_is_not_ready_and_recovers_by_itself(own_rig: NatsRig) -> None:
    bus = await own_rig.bus("approval")
    assert await bus.ready()
    for _ in range(2):
        own_rig.kill9()
        started = time.monotonic()
        assert not await bus.ready()
        assert time.monotonic() - started < 2
        await own_rig.start_bare()
        await until(bus.ready)


async def test_bus_that_hangs_is_not_ready(own_rig: NatsRig) -> None:
    """A server that accepts and says nothing is as bad as none."""

    async def silent() -> bool:
        return not await bus.ready()

    bus = await own_rig.bus("approval")
    os.kill(own_rig.pid, signal.SIGSTOP)
    try:
        await until(silent, timeout_s=3)
    finally:
        os.kill(own_rig.pid, signal.SIGCONT)
    await until(bus.ready)


async def test_bus_closed_while_the_server_is_away_is_closed_without_complaint(own_rig: NatsRig) -> None:
    at_once, later = await own_rig.bus("approval"), await own_rig.bus("approval")
    own_rig.kill9()
    await at_once.close()
    await until(lambda: not later.client.is_connected)
    await later.close()
    assert at_once.client.is_closed
    assert later.client.is_closed
    await later.close()


async def test_bus_back_runs_what_was_asked_for_on_reconnection(own_rig: NatsRig) -> None:
    bus = await own_rig.bus("gateway")
    back: list[str] = []

    async def callback() -> None:
        back.append("back")

    bus.on_reconnect(callback)
    assert back == []
    own_rig.kill9()
    await own_rig.start_bare()
    await until(lambda: back == ["back"])


async def test_connection_waits_for_a_server_that_starts_later(own_rig: NatsRig) -> None:
    own_rig.stop()
    connecting = asyncio.create_task(own_rig.bus("agent"))
    await asyncio.sleep(0.4)
    assert not connecting.done()
    await own_rig.start_bare()
    bus = await asyncio.wait_for(connecting, 5)
    assert await bus.ready()


async def test_connection_to_nowhere_gives_up_after_its_patience(own_rig: NatsRig) -> None:
    settings = await own_rig.settings("agent")
    own_rig.stop()
    started = time.monotonic()
    with pytest.raises((OSError, nats.errors.Error)):
        await Bus.connect(settings, patience_s=0.5)
    assert time.monotonic() - started < 4


@pytest.fixture
async def stranger() -> AsyncIterator[str]:
    """The seed of a user of another deployment."""
    with tempfile.TemporaryDirectory() as directory:
        write_users(Path(directory))
        yield (Path(directory) / "approval.seed").read_text(encoding="utf-8")


async def test_connection_with_a_strangers_seed_is_refused(nats_rig: NatsRig, stranger: str) -> None:
    settings = replace(await nats_rig.settings("approval"), seed=stranger)
    with pytest.raises((OSError, nats.errors.Error)):
        await Bus.connect(settings, patience_s=0.2)


async def test_connection_without_credentials_is_refused(nats_rig: NatsRig) -> None:
    with pytest.raises((OSError, nats.errors.Error)):
        await nats.connect(nats_rig.url, allow_reconnect=False, connect_timeout=2)


def test_seed_comes_from_the_setting_or_its_file_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "seed"
    path.write_text("SUFROMFILE\n", encoding="utf-8")
    assert read_seed("SUSETTING", path) == "SUSETTING"
    assert read_seed("", path) == "SUFROMFILE"
    with pytest.raises(ValueError, match="PLACET_NATS_SEED"):
        read_seed("", None)


def test_seed_files_are_private_and_made_once(tmp_path: Path) -> None:
    first = write_users(tmp_path)
    assert write_users(tmp_path) == first
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.seed"))
    environment = (tmp_path / "nats.env").read_text(encoding="utf-8")
    assert all(line.split("=")[1].startswith("U") for line in environment.splitlines())
    assert not any((tmp_path / f"{user}.seed").read_text() in environment for user in ("gateway", "provision"))


def test_settings_reach_the_api_where_their_account_has_it() -> None:
    assert BusSettings("", "approval", "").api_prefix == "$JS.API"
    assert BusSettings("", "agent", "").api_prefix == "core.api"
    assert BusSettings("", "gateway", "").inbox_prefix == "_INBOX_gateway"


async def test_provisioning_twice_changes_nothing(connect: Any) -> None:
    bus = await connect("provision")
    before = {info.config.name: info for info in await bus.js.streams_info()}
    names = await provision(bus)
    after = {info.config.name: info for info in await bus.js.streams_info()}
    assert set(names) == set(before) == set(after)
    assert len(names) == len(STREAMS) + len(BUCKETS) + len(OBJECT_BUCKETS)
    assert {name: info.config for name, info in before.items()} == {name: info.config for name, info in after.items()}


async def test_provisioning_makes_the_consumers_of_the_topology(connect: Any) -> None:
    bus = await connect("provision")
    for durable in DURABLES:
        info = await bus.js.consumer_info(durable.stream, durable.name)
        config = info.config
        assert {config.filter_subject, *(config.filter_subjects or ())} - {None, ""} == set(durable.filters)
        assert (config.ack_wait, config.max_ack_pending) == (durable.ack_wait_s, durable.max_ack_pending)


async def test_provisioning_brings_a_changed_stream_back_to_its_contract(own_rig: NatsRig) -> None:
    bus = await own_rig.bus("provision")
    config = (await bus.js.stream_info("TIMERS")).config
    await bus.js.update_stream(replace(config, duplicate_window=5))
    await provision(bus)
    assert (await bus.js.stream_info("TIMERS")).config.duplicate_window == 120


@pytest.mark.spec("L1", "L2", "A2")
@pytest.mark.parametrize("stream", [stream.name for stream in STREAMS if stream.append_only])
async def test_append_only_stream_lets_not_even_provisioning_delete_or_purge(connect: Any, stream: str) -> None:
    bus = await connect("provision")
    subject = next(one.subjects[0] for one in STREAMS if one.name == stream).replace("*", "acme").replace(">", "x.v1.y")
    ack = await bus.js.publish(subject, b"for ever")
    with pytest.raises(nats.js.errors.APIError):
        await bus.js.delete_msg(stream, ack.seq)
    with pytest.raises(nats.js.errors.APIError):
        await bus.js.purge_stream(stream)
    config = (await bus.js.stream_info(stream)).config
    for loosened in ({"deny_delete": False}, {"deny_purge": False}):
        with pytest.raises(nats.js.errors.APIError):
            await bus.js.update_stream(replace(config, **loosened))
    assert (config.max_age, config.max_msgs, config.max_bytes) in ((0, -1, -1), (None, -1, -1), (0.0, -1, -1))
    kept = await bus.js.get_msg(stream, seq=ack.seq)
    assert kept.data == b"for ever"
