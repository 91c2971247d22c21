"""A governed read call (policy, a trivial tool, durable audit) beside a raw NATS round trip, in one run.

The executor runs as its own process, as it does in production; the caller is the gateway's user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placet.contracts.errors import PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.tools import Route
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from tests.benchmarks.measuring import Measured, measure
from tests.benchmarks.processes import CpuClock, engines, policy_engine, service, world
from tests.integration.governance_rig import GovernanceRig

IN_FLIGHT = (1, 64)
CALLS = 600


@dataclass(frozen=True, slots=True)
class Row:
    """`cpu`: milliseconds of a call by process; `load` is the measuring one."""

    label: str
    in_flight: int
    measured: Measured
    cpu: Mapping[str, float]


async def main(only: str | None = None) -> None:
    """`only`: the one policy engine to measure with."""
    rows: list[Row] = []
    async with world() as rig:
        rows += await _raw(rig)
        for name in [only] if only else engines():
            async with policy_engine(rig, name) as engine, service(rig, "odd_executor", engine) as executor:
                pids = {"executor": executor, "nats": rig.nats.pid}
                pids |= {"opa": engine.pid} if engine.pid else {}
                rows += await _governed(rig, f"governed read, {name}", CpuClock(pids))
    _print(rows)


async def _raw(rig: GovernanceRig) -> list[Row]:
    """Request and reply between two connections of the server, crossing the same account boundary."""
    executor, gateway = await rig.nats.bus("tool-executor"), await rig.nats.bus("gateway")
    subject = "placet.acme.tool-executor.cmd.list-tools.v1"

    async def answer(message: object) -> None:
        await message.respond(b"{}")  # type: ignore[attr-defined]

    subscription = await executor.client.subscribe("placet.*.tool-executor.cmd.list-tools.v1", cb=answer)
    await executor.client.flush()

    async def work(_: int) -> object:
        return await gateway.client.request(subject, b"x" * 400, timeout=5)

    rows = [Row("raw NATS round trip", n, await measure(work, calls=2000, in_flight=n), {}) for n in IN_FLIGHT]
    await subscription.unsubscribe()
    return rows


async def _governed(rig: GovernanceRig, label: str, cpu: CpuClock) -> list[Row]:
    client = RpcClient(await rig.nats.bus("gateway"))
    grant = rig.grant("alice")

    async def work(_: int) -> object:
        command = ExecuteTool(grant=grant, call_id=new_id("call"), tool="odd_read", args={}, route=Route.HTTP)
        while True:
            try:
                return await client.call("tool-executor", "execute-tool", command, ToolReply, tenant="acme")
            except PlacetError as error:
                # Refused for want of time, where other work shares the machine: the time it took counts.
                if not error.retryable:
                    raise

    await until_served(work)
    # The first calls of a process are no measure of the later ones.
    await measure(work, calls=200, in_flight=16)
    rows = []
    for in_flight in IN_FLIGHT:
        cpu.start()
        measured = await measure(work, calls=CALLS, in_flight=in_flight, warm_up=0)
        rows.append(Row(label, in_flight, measured, cpu.ms_per(CALLS)))
    return rows


async def until_served(work: object) -> None:
    for _ in range(100):
        try:
            await work(0)  # type: ignore[operator]
        except PlacetError:
            continue
        return
    raise RuntimeError("the executor did not come up")


def _print(rows: list[Row]) -> None:
    floor = {row.in_flight: row.measured for row in rows if row.label.startswith("raw")}
    print(f"\n{'':34}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'per s':>9}{'p50 / raw':>11}   CPU ms a call")
    for row in rows:
        measured, ratio = row.measured, row.measured.p50_ms / floor[row.in_flight].p50_ms
        numbers = f"{measured.p50_ms:>9.2f}{measured.p99_ms:>9.2f}{measured.per_s:>9.0f}{ratio:>11.1f}"
        spent = ", ".join(f"{name} {milliseconds:.2f}" for name, milliseconds in row.cpu.items())
        print(f"{row.label:34}{row.in_flight:>10}{numbers}   {spent}")
