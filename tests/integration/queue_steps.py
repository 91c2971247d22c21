"""Putting jobs into the run queue and working on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from placet.contracts import subjects
from placet.contracts.runs import StartRun
from placet.contracts.topology import DURABLES, Durable
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.messaging.work_queue import JobHandler, WorkQueue
from placet.observability.context import RequestContext
from placet.testkit.nats import NatsRig

RUNS = replace(next(durable for durable in DURABLES if durable.name == "agent__run-queue-v1"), ack_wait_s=1.0)


async def submit(bus: Bus, run_id: str, *, tenant: str = "acme") -> None:
    payload = wire.encode(
        message_id=f"start-{run_id}",
        source="placet/gateway",
        type_="placet.agent.start-run.v1",
        subject=run_id,
        context=RequestContext(f"req-{run_id}", tenant, "alice"),
        tenant=tenant,
        data=StartRun(grant="g", run_id=run_id, conversation_id="c", question="q"),
    )
    await bus.js.publish(subjects.command(tenant, "agent", "start-run", run_id), payload, timeout=2)


@asynccontextmanager
async def working(bus: Bus, handler: JobHandler, durable: Durable = RUNS, **options: Any) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(bus, durable, handler, **({"concurrency": 4} | options))
    await queue.start()
    try:
        yield queue
    finally:
        await queue.stop(grace_s=0.1)


async def left(rig: NatsRig) -> int:
    bus = await rig.bus("provision")
    return (await bus.js.stream_info("RUN_QUEUE")).state.messages
