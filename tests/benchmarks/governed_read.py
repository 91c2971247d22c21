"""A governed read call (policy, a trivial tool, durable audit) beside a raw NATS round trip, in one run.

The executor runs as its own process, as it does in production; the caller is the gateway's user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from placet.contracts.errors import PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.tools import Route
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from placet.policy.bundle import build_bundle
from placet.policy.opa_binary import find_opa
from placet.policy.opa_server import OpaServer
from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig
from tests.benchmarks.measuring import Measured, measure
from tests.integration.governance_rig import ROOT, GovernanceRig

IN_FLIGHT = (1, 64)


async def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="placet-bench-"))
    directory.chmod(0o755)
    (directory / "nats").mkdir()
    nats, postgres = NatsRig(directory / "nats"), PostgresRig(directory / "postgres")
    rows: list[tuple[str, int, Measured]] = []
    try:
        await nats.start()
        await postgres.start()
        rig = GovernanceRig(nats, postgres, directory)
        await rig.prepare()
        rows += await _raw(rig)
        async with _executor(rig, directory, engine="embedded"):
            rows += await _governed(rig, "governed read, embedded engine")
        opa = find_opa(ROOT / ".placet")
        if opa:
            bundle = directory / "bundle"
            build_bundle(rig.policies, bundle)
            async with _opa(opa, bundle, directory) as url, _executor(rig, directory, engine="opa", opa_url=url):
                rows += await _governed(rig, "governed read, OPA server")
        else:
            print("no opa binary: its column is left out (`make opa`)")
    finally:
        await nats.close()
        await postgres.close()
        shutil.rmtree(directory, ignore_errors=True)
    _print(rows)


async def _raw(rig: GovernanceRig) -> list[tuple[str, int, Measured]]:
    """Request and reply between two connections of the server, crossing the same account boundary."""
    executor, gateway = await rig.nats.bus("tool-executor"), await rig.nats.bus("gateway")
    subject = "placet.acme.tool-executor.cmd.list-tools.v1"

    async def answer(message: object) -> None:
        await message.respond(b"{}")  # type: ignore[attr-defined]

    subscription = await executor.client.subscribe("placet.*.tool-executor.cmd.list-tools.v1", cb=answer)
    await executor.client.flush()

    async def work(_: int) -> object:
        return await gateway.client.request(subject, b"x" * 400, timeout=5)

    rows = [("raw NATS round trip", n, await measure(work, calls=2000, in_flight=n)) for n in IN_FLIGHT]
    await subscription.unsubscribe()
    return rows


async def _governed(rig: GovernanceRig, label: str) -> list[tuple[str, int, Measured]]:
    client = RpcClient(await rig.nats.bus("gateway"))
    grant = rig.grant("alice")

    async def work(_: int) -> object:
        command = ExecuteTool(grant=grant, call_id=new_id("call"), tool="odd_read", args={}, route=Route.HTTP)
        return await client.call("tool-executor", "execute-tool", command, ToolReply, tenant="acme")

    await _until_served(work)
    return [(label, n, await measure(work, calls=600, in_flight=n)) for n in IN_FLIGHT]


async def _until_served(work: object) -> None:
    for _ in range(100):
        try:
            await work(0)  # type: ignore[operator]
        except PlacetError:
            continue
        return
    raise RuntimeError("the executor did not come up")


@asynccontextmanager
async def _executor(rig: GovernanceRig, directory: Path, *, engine: str, opa_url: str = "") -> AsyncIterator[None]:
    settings = rig.executor_settings()
    environment = {
        **os.environ,
        "PLACET_NATS_URL": settings.nats_url,
        "PLACET_NATS_SEED_FILE": str(settings.nats_seed_file),
        "PLACET_DATABASE_URL": settings.database_url,
        "PLACET_POLICY_ENGINE": engine,
        "PLACET_POLICY_DIR": str(rig.policies),
        "PLACET_OPA_URL": opa_url or "http://127.0.0.1:1",
        "PLACET_GRANT_PUBLIC_FILE": str(settings.grant_public_file),
        "PLACET_APPROVAL_PUBLIC_FILE": str(settings.approval_public_file),
        "PLACET_EFFECT_SIGNING_KEY_FILE": str(settings.effect_signing_key_file),
    }
    with (directory / f"executor-{engine}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.odd_executor"], env=environment, cwd=ROOT, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@asynccontextmanager
async def _opa(binary: Path, bundle: Path, directory: Path) -> AsyncIterator[str]:
    server = await OpaServer.start(binary, bundle, log_file=directory / "opa.log")
    try:
        yield server.url
    finally:
        await server.stop()


def _print(rows: list[tuple[str, int, Measured]]) -> None:
    floor = {n: measured for label, n, measured in rows if label.startswith("raw")}
    print(f"\n{'':34}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'per s':>9}{'p50 / raw':>11}")
    for label, n, measured in rows:
        ratio = measured.p50_ms / floor[n].p50_ms
        print(f"{label:34}{n:>10}{measured.p50_ms:>9.2f}{measured.p99_ms:>9.2f}{measured.per_s:>9.0f}{ratio:>11.1f}")
