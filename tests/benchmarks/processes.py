"""The system under measurement: bus, database, policy engine and services, each a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psutil

from placet.policy.bundle import build_bundle
from placet.policy.opa_binary import find_opa
from placet.policy.opa_server import OpaServer
from tests.integration.foundations import foundations
from tests.integration.governance_rig import ROOT, GovernanceRig


@asynccontextmanager
async def world() -> AsyncIterator[GovernanceRig]:
    """Everything but the services, in a directory that is removed at the end."""
    async with foundations() as (nats, postgres, directory):
        rig = GovernanceRig(nats, postgres, directory)
        await rig.prepare()
        yield rig


def engines() -> list[str]:
    """The policy engines that are here: OPA only where its binary is (`make opa`)."""
    return ["opa", "embedded"] if find_opa(ROOT / ".placet") else ["embedded"]


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine's settings for a service, and its process where it has one."""

    settings: Mapping[str, str]
    pid: int | None = None


@asynccontextmanager
async def policy_engine(rig: GovernanceRig, engine: str) -> AsyncIterator[Engine]:
    """An OPA server runs until the block ends."""
    settings = {"PLACET_POLICY_ENGINE": engine, "PLACET_POLICY_DIR": str(rig.policies)}
    binary = find_opa(ROOT / ".placet") if engine == "opa" else None
    if binary is None:
        yield Engine(settings)
        return
    bundle = rig.policies.parent / "bundle"
    build_bundle(rig.policies, bundle)
    server = await OpaServer.start(binary, bundle, log_file=bundle.parent / "opa.log")
    try:
        yield Engine(settings | {"PLACET_OPA_URL": server.url}, server.pid)
    finally:
        await server.stop()


@asynccontextmanager
async def service(rig: GovernanceRig, module: str, engine: Engine) -> AsyncIterator[int]:
    """`odd_executor` or `services.approval` as a process; yields its process id."""
    name = module if "." in module else f"tests.benchmarks.{module}"
    common = rig.executor_settings() if module == "odd_executor" else rig.approval_settings()
    environment = {
        **os.environ,
        **engine.settings,
        "PLACET_NATS_URL": common.nats_url,
        "PLACET_NATS_SEED_FILE": str(common.nats_seed_file),
        "PLACET_DATABASE_URL": common.database_url,
        "PLACET_LOG_LEVEL": "WARNING",
        "PLACET_GRANT_PUBLIC_FILE": str(rig.keys.public("grant")),
        "PLACET_APPROVAL_PUBLIC_FILE": str(rig.keys.public("approval")),
        "PLACET_APPROVAL_SIGNING_KEY_FILE": str(rig.keys.private("approval")),
        "PLACET_AUDIT_SIGNING_KEY_FILE": str(rig.keys.private("audit")),
        "PLACET_EFFECT_PUBLIC_FILE": str(rig.keys.public("effect")),
        "PLACET_EFFECT_SIGNING_KEY_FILE": str(rig.keys.private("effect")),
    }
    with (rig.policies.parent / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", name], env=environment, cwd=ROOT, stderr=log)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(20)


@dataclass(slots=True)
class CpuClock:
    """CPU seconds of named processes with their children since `start`; `load` is the measuring process itself."""

    pids: Mapping[str, int]
    _before: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        self._before = self._now()

    def ms_per(self, runs: int) -> dict[str, float]:
        return {name: (seconds - self._before[name]) / runs * 1e3 for name, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: _cpu(pid) for name, pid in {**self.pids, "load": os.getpid()}.items()}


def _cpu(pid: int) -> float:
    process = psutil.Process(pid)
    if pid == os.getpid():
        return float(process.cpu_times().user + process.cpu_times().system)
    each = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(times.user + times.system + times.children_user + times.children_system for times in each))
