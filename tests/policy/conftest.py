"""Both engines over the same policy directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from placet.policy.bundle import build_bundle
from placet.policy.engine import PolicyEngine
from placet.policy.opa import OpaPolicy
from placet.policy.opa_server import OpaServer
from placet.policy.rego import RegoPolicy
from placet.testkit.requirements import opa_or_reason

ENGINES = ("embedded", "opa")

Serve = Callable[[Path], Awaitable[PolicyEngine]]
OpaOn = Callable[..., Awaitable[tuple[OpaServer, OpaPolicy]]]


@pytest.fixture(scope="session")
def policy_dir(root: Path) -> Path:
    return root / "policies"


@pytest.fixture
def own_policies(policy_dir: Path, tmp_path: Path) -> Path:
    """A copy of the policies, to change."""
    return Path(shutil.copytree(policy_dir, tmp_path / "policies"))


@pytest.fixture(scope="session")
async def engines(policy_dir: Path, root: Path) -> AsyncIterator[dict[str, PolicyEngine]]:
    """The shipped policies on every engine that is there."""
    async with AsyncExitStack() as stack:
        found = {"embedded": await _embedded(policy_dir, stack)}
        binary, _ = opa_or_reason(root)
        if binary:
            found["opa"] = await _opa(binary, policy_dir, stack)
        yield found


@pytest.fixture(params=ENGINES)
def policy(request: pytest.FixtureRequest, engines: dict[str, PolicyEngine]) -> PolicyEngine:
    """The shipped policies on one engine, each in turn."""
    if request.param == "opa":
        request.getfixturevalue("opa_binary")
    return engines[request.param]


@pytest.fixture
def both(engines: dict[str, PolicyEngine], opa_binary: Path) -> tuple[PolicyEngine, PolicyEngine]:
    return engines["embedded"], engines["opa"]


@pytest.fixture(params=ENGINES)
async def serve(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[Serve]:
    """`await serve(policy_dir)`: other policies on one engine, each engine in turn."""
    binary = request.getfixturevalue("opa_binary") if request.param == "opa" else None
    async with AsyncExitStack() as stack:

        async def start(policy_dir: Path) -> PolicyEngine:
            return await (_opa(binary, policy_dir, stack) if binary else _embedded(policy_dir, stack))

        yield start


@pytest.fixture
async def opa_on(opa_binary: Path, tmp_path: Path) -> AsyncIterator[OpaOn]:
    """`server, policy = await opa_on(bundle_dir, port)`: an OPA of this test, stopped with it."""
    async with AsyncExitStack() as stack:

        async def start(bundle_dir: Path, port: int = 0) -> tuple[OpaServer, OpaPolicy]:
            server = await OpaServer.start(opa_binary, bundle_dir, log_file=tmp_path / "logs" / "opa.log", port=port)
            stack.push_async_callback(server.stop)
            policy = await OpaPolicy.open(server.url)
            stack.push_async_callback(policy.close)
            return server, policy

        yield start


async def _embedded(policy_dir: Path, stack: AsyncExitStack) -> PolicyEngine:
    policy = await RegoPolicy.open(policy_dir, timeout_s=5.0)
    stack.push_async_callback(policy.close)
    return policy


async def _opa(binary: Path, policy_dir: Path, stack: AsyncExitStack) -> PolicyEngine:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-opa-")))
    # Unchecked: tests serve policies that OPA must refuse by itself.
    build_bundle(policy_dir, directory, checked=False)
    server = await OpaServer.start(binary, directory, log_file=directory / "opa.log")
    stack.push_async_callback(server.stop)
    policy = await OpaPolicy.open(server.url, timeout_s=5.0)
    stack.push_async_callback(policy.close)
    return policy
