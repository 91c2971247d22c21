"""A governed read call (policy, a trivial tool, durable audit) beside a raw NATS round trip, in one run.

The executor runs as its own process, as it does in production; the caller is the gateway's user.
"""

from __future__ import annotations

from placet.contracts.errors import PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.tools import Route
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from tests.benchmarks.measuring import Measured, measure
from tests.benchmarks.processes import engines, policy_engine, service, world
from tests.integration.governance_rig import GovernanceRig

IN_FLIGHT = (1, 64)


async def main(only: str | None = None) -> None:
    """`only`: the one policy engine to measure with."""
    rows: list[tuple[str, int, Measured]] = []
    async with world() as rig:
        rows += await _raw(rig)
        for name in [only] if only else engines():
            async with policy_engine(rig, name) as engine, service(rig, "odd_executor", engine):
                rows += await _governed(rig, f"governed read, {name}")
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

    await until_served(work)
    return [(label, n, await measure(work, calls=600, in_flight=n)) for n in IN_FLIGHT]


async def until_served(work: object) -> None:
    for _ in range(100):
        try:
            await work(0)  # type: ignore[operator]
        except PlacetError:
            continue
        return
    raise RuntimeError("the executor did not come up")


def _print(rows: list[tuple[str, int, Measured]]) -> None:
    floor = {n: measured for label, n, measured in rows if label.startswith("raw")}
    print(f"\n{'':34}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'per s':>9}{'p50 / raw':>11}")
    for label, n, measured in rows:
        ratio = measured.p50_ms / floor[n].p50_ms
        print(f"{label:34}{n:>10}{measured.p50_ms:>9.2f}{measured.p99_ms:>9.2f}{measured.per_s:>9.0f}{ratio:>11.1f}")
