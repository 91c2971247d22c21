"""The children of `placet up` as specifications: the bus, the database, the policy engine, the five services."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli.state_dir import StateDir
from placet.cli.supervisor.environment import bare
from placet.cli.supervisor.spec import ChildSpec, Probe
from placet.observability.probe import answers

if TYPE_CHECKING:
    from placet.messaging.server import EmbeddedNats
    from placet.storage import EmbeddedPostgres

PROBE_TIMEOUT_S = 3.0


def bus(server: EmbeddedNats, state: StateDir) -> ChildSpec:
    from placet.messaging.server import NATS_ENVIRONMENT

    return ChildSpec(
        name="nats",
        command=server.command,
        environment=NATS_ENVIRONMENT | bare() | server.public_keys,
        log=state.log("nats"),
        ready=_patient(server.wait_ready, TimeoutError),
        # It flushes and leaves in milliseconds; a SIGKILL would lose nothing either.
        orphan_signal=signal.SIGTERM,
    )


def database(server: EmbeddedPostgres, state: StateDir) -> ChildSpec:
    from placet.storage import EmbeddedPostgresError

    return ChildSpec(
        name="postgres",
        command=server.command,
        environment=bare(),
        log=state.log("postgres"),
        ready=_patient(server.wait_ready, EmbeddedPostgresError),
        stop_signal=server.stop_signal,
        orphan_signal=None,
    )


def policy_engine(binary: Path, port: int, state: StateDir) -> ChildSpec:
    from placet.policy.bundle import BUNDLE_NAME
    from placet.policy.opa_server import OPA_ENVIRONMENT, opa_command

    command = opa_command(binary, state.policy_bundle / BUNDLE_NAME, host="127.0.0.1", port=port)
    return ChildSpec(
        name="opa",
        command=lambda: command,
        environment=OPA_ENVIRONMENT | bare(),
        log=state.log("opa"),
        ready=http_probe(f"http://127.0.0.1:{port}/health?bundles"),
    )


def service(name: str, environment: Mapping[str, str], health_port: int, state: StateDir) -> ChildSpec:
    command = [sys.executable, "-m", f"services.{name.replace('-', '_')}"]
    return ChildSpec(
        name=name,
        command=lambda: command,
        environment=environment,
        log=state.log(name),
        ready=http_probe(f"http://127.0.0.1:{health_port}/readyz"),
    )


def http_probe(url: str) -> Probe:
    async def probe() -> bool:
        ready, _ = await asyncio.to_thread(answers, url, PROBE_TIMEOUT_S)
        return ready

    return probe


def _patient(wait_ready: Callable[[float], Awaitable[None]], impatience: type[Exception]) -> Probe:
    """One look, from a server's own `wait_ready(timeout_s)`."""

    async def probe() -> bool:
        try:
            await wait_ready(1.0)
        except impatience:
            return False
        return True

    return probe
