"""Propose → decide → executed → completed through the real processes, beside a plain PostgreSQL table, in one run.

Policy is asked at proposing, deciding and committing; every event is signed; every step is audited. The floor does
the same job as people would write it by hand: one table, one row per proposal, updated in four transactions.
"""

from __future__ import annotations

import asyncio
import time

import psutil
from psycopg_pool import AsyncConnectionPool

from placet.contracts.approvals import DecideProposal, DecisionResult
from placet.contracts.execution import ExecuteTool, ToolReply
from placet.contracts.proposals import DecisionKind
from placet.contracts.tools import Route
from placet.messaging.live import LiveEvents
from placet.messaging.reading import Stored
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from tests.benchmarks.governed_read import until_served
from tests.benchmarks.measuring import Measured, measure
from tests.benchmarks.processes import engines, policy_engine, service, world
from tests.integration.governance_rig import GovernanceRig

IN_FLIGHT = (1, 64)
CALLS = {1: 150, 64: 1500}


class Journey:
    """One proposal from asking to its last event, timed from the decision on as well."""

    def __init__(self, rig: GovernanceRig) -> None:
        self._rig = rig
        self._waiting: dict[tuple[str, str], asyncio.Future[float]] = {}
        self.decided_to_executed: list[float] = []

    async def open(self) -> None:
        self._client = RpcClient(await self._rig.nats.bus("gateway"))
        self._alice, self._dave = self._rig.grant("alice"), self._rig.grant("dave")
        auditor = await self._rig.nats.bus("provision")
        await LiveEvents(auditor, "approval", self._on_event).start()
        await LiveEvents(auditor, "tool-executor", self._on_event).start()

    async def _on_event(self, event: Stored) -> None:
        data = event.envelope.data
        waiter = self._waiting.pop((event.name, str(data.get("proposal_id"))), None)
        if waiter and not waiter.done():
            waiter.set_result(time.perf_counter())

    def _await(self, name: str, proposal_id: str) -> asyncio.Future[float]:
        return self._waiting.setdefault((name, proposal_id), asyncio.get_running_loop().create_future())

    async def work(self, _: int) -> object:
        command = ExecuteTool(
            grant=self._alice,
            call_id=new_id("call"),
            tool="odd_gated_write",
            args={"mode": new_id("ok")},
            route=Route.HTTP,
        )
        reply = await self._client.call("tool-executor", "execute-tool", command, ToolReply, tenant="acme")
        assert reply.proposal is not None
        assert reply.digest is not None
        proposal_id = reply.proposal.proposal_id
        executed, completed = self._await("executed", proposal_id), self._await("completed", proposal_id)
        decision = DecideProposal(
            grant=self._dave, proposal_id=proposal_id, decision=DecisionKind.APPROVE, digest=reply.digest
        )
        started = time.perf_counter()
        await self._client.call("approval", "decide", decision, DecisionResult, tenant="acme")
        async with asyncio.timeout(30):
            self.decided_to_executed.append(await executed - started)
            await completed
        return None


async def main() -> None:
    rows: list[tuple[str, int, Measured, str]] = []
    async with world() as rig:
        rows += [("plain PostgreSQL table", n, await _floor(rig, n), "") for n in IN_FLIGHT]
        for engine in engines():
            async with (
                policy_engine(rig, engine) as settings,
                service(rig, "odd_executor", settings) as executor,
                service(rig, "services.approval", settings) as approval,
            ):
                pids = {"executor": executor, "approval": approval, "nats": rig.nats.pid}
                rows += await _placet(rig, engine, pids)
    _print(rows)


async def _placet(rig: GovernanceRig, engine: str, pids: dict[str, int]) -> list[tuple[str, int, Measured, str]]:
    journey = Journey(rig)
    await journey.open()
    await until_served(journey.work)
    rows = []
    for in_flight in IN_FLIGHT:
        journey.decided_to_executed.clear()
        before = {name: _cpu(pid) for name, pid in pids.items()}
        calls = CALLS[in_flight]
        measured = await measure(journey.work, calls=calls, in_flight=in_flight, warm_up=20)
        spent = ", ".join(f"{name} {(_cpu(pid) - before[name]) / calls * 1e3:.2f}" for name, pid in pids.items())
        late = sorted(journey.decided_to_executed)
        note = f"decide→executed p50 {late[len(late) // 2] * 1e3:.1f} ms; CPU ms/run: {spent}"
        rows.append((f"placet, {engine}", in_flight, measured, note))
    return rows


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def _floor(rig: GovernanceRig, in_flight: int) -> Measured:
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

        return await measure(work, calls=CALLS[in_flight] * 2, in_flight=in_flight)


def _print(rows: list[tuple[str, int, Measured, str]]) -> None:
    floor = {n: measured for label, n, measured, _ in rows if label.startswith("plain")}
    print(f"\n{'':26}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'runs/s':>9}{'of floor':>10}")
    for label, n, measured, note in rows:
        share = measured.per_s / floor[n].per_s
        numbers = f"{measured.p50_ms:>9.1f}{measured.p99_ms:>9.1f}{measured.per_s:>9.0f}{share:>10.2f}"
        print(f"{label:26}{n:>10}{numbers}  {note}")
