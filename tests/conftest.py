"""Fixtures for every room of tests: one provisioned nats-server per session, connections per test, OPA if there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from placet.messaging.connection import Bus
from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig
from placet.testkit.requirements import MissingError, opa_or_reason
from placet.testkit.spec_rows import load, rows_of, unknown

# `placet_up`: the session's `placet up`, started only if a test asks for it.
pytest_plugins = ["placet.testkit.placet_process"]

ROOT = Path(__file__).resolve().parents[1]

Connect = Callable[[str], Awaitable[Bus]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A `spec` marker with a typing error would prove nothing: it stops the run."""
    named = {row for item in items for row in rows_of(item)}
    if wrong := unknown(load(ROOT), named):
        raise pytest.UsageError(f"no such rows of the specification: {', '.join(wrong)}")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
async def nats_rig() -> AsyncIterator[NatsRig]:
    """The session's server. Tests share it: they use their own entities and leave it running."""
    async for rig in _rig():
        yield rig


@pytest.fixture
async def own_rig() -> AsyncIterator[NatsRig]:
    """A server of this test alone, to kill and to start again (0.3 s)."""
    async for rig in _rig():
        yield rig


async def _rig() -> AsyncIterator[NatsRig]:
    directory = Path(tempfile.mkdtemp(prefix="placet-nats-"))
    rig = NatsRig(directory)
    try:
        await rig.start()
        yield rig
    finally:
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
async def postgres_rig(root: Path) -> AsyncIterator[PostgresRig]:
    """The session's database with the demo world. Tests share it: they write only below tenants of their own."""
    directory = Path(tempfile.mkdtemp(prefix="placet-pg-"))
    rig = PostgresRig(directory)
    try:
        await rig.start()
        await rig.seed(root / "seeds")
        yield rig
    finally:
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def connect(nats_rig: NatsRig) -> AsyncIterator[Connect]:
    """`await connect("agent")`: a connection to the session's server that ends with the test."""
    buses: list[Bus] = []

    async def open_bus(user: str) -> Bus:
        bus = await Bus.connect(await nats_rig.settings(user))
        buses.append(bus)
        return bus

    yield open_bus
    for bus in buses:
        await bus.close()


@pytest.fixture(scope="session")
def opa_binary(root: Path) -> Path:
    """An `opa` to test with. Without one the test is skipped, or fails where PLACET_REQUIRE_OPA is set (CI)."""
    try:
        binary, reason = opa_or_reason(root)
    except MissingError as error:
        pytest.fail(str(error))
    if binary is None:
        pytest.skip(reason)
    return binary
