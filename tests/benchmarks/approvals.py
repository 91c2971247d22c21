"""Propose → decide → executed → completed through the real processes, beside a plain PostgreSQL table, in one run.

Policy is asked at proposing, deciding and committing; every event is signed; every step is audited. The floor does
the same job as people would write it by hand: one table, one row per proposal, updated in four transactions.
CPU is counted per process and run; `load` is the measuring process, which shares the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import orjson
from nats.aio.msg import Msg
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

from placet.contracts.approvals import DecideProposal, DecisionResult
from placet.contracts.envelope import Command
from placet.contracts.errors import PlacetError
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.proposals import DecisionKind
from placet.contracts.tools import Route
from placet.contracts.topology import STORED_PREFIX
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from tests.benchmarks.governed_read import until_served
from tests.benchmarks.measuring import Measured, measure
from tests.benchmarks.processes import CpuClock, engines, policy_engine, service, world
from tests.integration.governance_rig import GovernanceRig

R = TypeVar("R", bound=BaseModel)

IN_FLIGHT = (1, 64)
CALLS = {1: 200, 64: 2000}
_FOLLOWED = ("tool-executor.evt.executed", "approval.evt.completed")


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    in_flight: int
    measured: Measured
    cpu: Mapping[str, float]
    decided_to_executed: list[float] = field(default_factory=list)
    repeated: int = 0


class Journey:
    """One proposal from asking to its last event, timed from the decision on as well."""

    def __init__(self, rig: GovernanceRig) -> None:
        self._rig = rig
        self._waiting: dict[tuple[str, str], asyncio.Future[float]] = {}
        self.decided_to_executed: list[float] = []
        self.repeated = 0

    async def open(self) -> None:
        self._client = RpcClient(await self._rig.nats.bus("gateway"))
        self._alice, self._dave = self._rig.grant("alice"), self._rig.grant("dave")
        auditor = await self._rig.nats.bus("provision")
        for followed in _FOLLOWED:
            subject = f"{STORED_PREFIX}.placet.*.{followed}.v1.*"
            await auditor.client.subscribe(subject, cb=self._on_event, pending_msgs_limit=65_536)
        await auditor.client.flush()

    async def _on_event(self, message: Msg) -> None:
        name, proposal_id = message.subject.split(".")[5], orjson.loads(message.data)["data"]["proposal_id"]
        waiter = self._waiting.pop((name, proposal_id), None)
        if waiter and not waiter.done():
            waiter.set_result(time.perf_counter())

    def _await(self, name: str, proposal_id: str) -> asyncio.Future[float]:
        return self._waiting.setdefault((name, proposal_id), asyncio.get_running_loop().create_future())

    async def _call(self, owner: str, name: str, command: Command, reply: type[R]) -> R:
        """A call refused for want of time (other work on the machine) is made again, and counted."""
        while True:
            try:
                return await self._client.call(owner, name, command, reply, tenant="acme")
            except PlacetError as error:
                if not error.retryable:
                    raise
                self.repeated += 1

    async def work(self, _: int) -> object:
        command = ExecuteTool(
            grant=self._alice,
            call_id=new_id("call"),
            tool="odd_gated_write",
            args={"mode": new_id("ok")},
            route=Route.HTTP,
        )
        reply = await self._call("tool-executor", "execute-tool", command, ToolReply)
        assert reply.proposal is not None
        assert reply.digest is not None
        proposal_id = reply.proposal.proposal_id
        executed, completed = self._await("executed", proposal_id), self._await("completed", proposal_id)
        decision = DecideProposal(
            grant=self._dave, proposal_id=proposal_id, decision=DecisionKind.APPROVE, digest=reply.digest
        )
        started = time.perf_counter()
        await self._call("approval", "decide", decision, DecisionResult)
        async with asyncio.timeout(30):
            self.decided_to_executed.append(await executed - started)
            await completed
        return None


async def main(only: str | None = None) -> None:
    """`only`: the one policy engine to measure with."""
    rows: list[Row] = []
    async with world() as rig:
        postgres = int((rig.postgres.server.data / "postmaster.pid").read_text().splitlines()[0])
        rows += [await _floor(rig, postgres, n) for n in IN_FLIGHT]
        for name in [only] if only else engines():
            async with (
                policy_engine(rig, name) as engine,
                service(rig, "odd_executor", engine) as executor,
                service(rig, "services.approval", engine) as approval,
            ):
                pids = {"approval": approval, "executor": executor, "nats": rig.nats.pid, "postgres": postgres}
                pids |= {"opa": engine.pid} if engine.pid else {}
                rows += await _placet(rig, f"placet, {name}", CpuClock(pids))
    _print(rows)


async def _placet(rig: GovernanceRig, label: str, cpu: CpuClock) -> list[Row]:
    journey = Journey(rig)
    await journey.open()
    await until_served(journey.work)
    # The first calls of a process are no measure of the later ones.
    await measure(journey.work, calls=300, in_flight=16, warm_up=20)
    rows = []
    for in_flight in IN_FLIGHT:
        journey.decided_to_executed.clear()
        journey.repeated = 0
        cpu.start()
        measured = await measure(journey.work, calls=CALLS[in_flight], in_flight=in_flight, warm_up=0)
        spent = cpu.ms_per(CALLS[in_flight])
        rows.append(Row(label, in_flight, measured, spent, sorted(journey.decided_to_executed), journey.repeated))
    return rows


async def _floor(rig: GovernanceRig, postgres: int, in_flight: int) -> Row:
    """propose, decide, execute, complete: four transactions on one row, with the conditions one would write."""
    async with AsyncConnectionPool(rig.postgres.server.admin_url, min_size=in_flight, max_size=in_flight) as pool:
        async with pool.connection() as connection:
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS floor (id text PRIMARY KEY, status text, packet jsonb, by text)"
            )

        async def work(_: int) -> object:
            proposal_id = new_id("prop")
            steps = (
                ("INSERT INTO floor VALUES (%s, 'pending', '{}', NULL)", (proposal_id,)),
                ("UPDATE floor SET status='approved', by='dave' WHERE id=%s AND status='pending'", (proposal_id,)),
                ("UPDATE floor SET status='executed' WHERE id=%s AND status='approved'", (proposal_id,)),
                ("UPDATE floor SET status='completed' WHERE id=%s AND status='executed'", (proposal_id,)),
            )
            for statement, values in steps:
                async with pool.connection() as connection:
                    await connection.execute(statement, values)
            return None

        await measure(work, calls=in_flight, in_flight=in_flight)
        cpu = CpuClock({"postgres": postgres})
        cpu.start()
        measured = await measure(work, calls=CALLS[in_flight] * 2, in_flight=in_flight, warm_up=0)
        return Row("plain PostgreSQL table", in_flight, measured, cpu.ms_per(CALLS[in_flight] * 2))


def _print(rows: list[Row]) -> None:
    floor = {row.in_flight: row.measured for row in rows if row.label.startswith("plain")}
    names = [*dict.fromkeys(name for row in rows for name in row.cpu if name != "load"), "load"]
    head = f"{'in flight':>10}{'runs/s':>8}{'of floor':>9}{'p50 ms':>8}{'p99 ms':>8}{'decide→executed p50':>21}"
    print(f"\n{'':24}{head}   CPU ms a run: {'all':>6}" + "".join(f"{name:>9}" for name in names))
    for row in rows:
        measured, late = row.measured, row.decided_to_executed
        share = f"{measured.per_s / floor[row.in_flight].per_s:>9.2f}" if floor else f"{'':9}"
        executed = f"{late[len(late) // 2] * 1e3:>18.1f} ms" if late else f"{'':21}"
        numbers = f"{row.in_flight:>10}{measured.per_s:>8.0f}{share}{measured.p50_ms:>8.1f}{measured.p99_ms:>8.1f}"
        spent = "".join(f"{row.cpu[name]:>9.2f}" if name in row.cpu else f"{'':9}" for name in names)
        print(f"{row.label:24}{numbers}{executed}{'':17}{sum(row.cpu.values()):>6.1f}{spent}")
    for row in rows:
        if row.repeated:
            print(f"{row.label}, {row.in_flight} in flight: {row.repeated} calls made again after a time-out")
