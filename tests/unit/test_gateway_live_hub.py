"""The fan-out of live events to bounded queues."""

from __future__ import annotations

import asyncio
from typing import Any

from placet.contracts.envelope import Envelope
from placet.messaging.reading import Stored
from services.gateway.adapters.live_hub import LiveHub
from services.gateway.domain.runs import RunKey, RunSeen
from services.gateway.ports import Signal

KEY = RunKey("acme", "run-1")


def stored(seq: int, run_id: str = "run-1", tenant: str = "acme", **changes: Any) -> Stored:
    data = {"run_id": run_id, "seq": seq, "owner": "alice", "conversation_id": "c", "data": {}}
    envelope = Envelope(
        id=f"e{seq}",
        source="placet/agent",
        type="placet.agent.message-delta.v1",
        subject=run_id,
        tenant=tenant,
        correlationid="req-1",
        data=data | changes,
    )
    subject = f"placet.{tenant}.agent.evt.message-delta.v1.{run_id}"
    return Stored(seq + 50, subject, "message-delta", run_id, tenant, envelope, None)


async def next_of(seat: Any, timeout_s: float = 0.05) -> Any:
    return await seat.next(timeout_s)


async def test_hub_event_goes_to_every_seat_of_its_run_and_to_no_other() -> None:
    hub = LiveHub()
    with hub.join(KEY) as one, hub.join(KEY) as two, hub.join(RunKey("acme", "run-2")) as other:
        await hub.on_event(stored(1))
        for seat in (one, two):
            seen = await next_of(seat)
            assert isinstance(seen, RunSeen)
            assert (seen.seq, seen.position) == (1, 51)
        assert await next_of(other) is Signal.QUIET


async def test_hub_same_run_id_of_another_tenant_is_another_run() -> None:
    hub = LiveHub()
    with hub.join(RunKey("globex", "run-1")) as seat:
        await hub.on_event(stored(1, tenant="acme"))
        assert await next_of(seat) is Signal.QUIET


async def test_hub_event_that_does_not_fit_its_contract_is_left_out() -> None:
    hub = LiveHub()
    with hub.join(KEY) as seat:
        await hub.on_event(stored(1, owner=["not", "a", "name"]))
        await hub.on_event(stored(2))
        seen = await next_of(seat)
        assert isinstance(seen, RunSeen)
        assert seen.seq == 2


async def test_hub_full_queue_is_given_out_and_then_lost() -> None:
    hub = LiveHub(queue_size=3)
    with hub.join(KEY) as slow, hub.join(KEY) as quick:
        for seq in range(1, 6):
            await hub.on_event(stored(seq))
            assert (await next_of(quick)).seq == seq
        assert [(await next_of(slow)).seq for _ in range(3)] == [1, 2, 3]
        assert await next_of(slow) is Signal.LOST
        await hub.on_event(stored(6))
        assert await next_of(slow) is Signal.LOST


async def test_hub_recheck_reaches_every_run() -> None:
    hub = LiveHub()
    with hub.join(KEY) as one, hub.join(RunKey("globex", "run-9")) as two:
        await hub.recheck()
        assert await next_of(one) is Signal.RECHECK
        assert await next_of(two) is Signal.RECHECK


async def test_hub_close_wakes_who_waits_and_refuses_who_comes_later() -> None:
    hub = LiveHub()
    with hub.join(KEY) as seat:
        waiting = asyncio.create_task(seat.next(30))
        await asyncio.sleep(0.01)
        hub.close()
        assert await asyncio.wait_for(waiting, 1) is Signal.CLOSED
    with hub.join(KEY) as late:
        assert await late.next(30) is Signal.CLOSED


async def test_hub_close_with_a_full_queue_still_ends_it() -> None:
    hub = LiveHub(queue_size=1)
    with hub.join(KEY) as seat:
        await hub.on_event(stored(1))
        hub.close()
        assert isinstance(await next_of(seat), RunSeen)
        assert await next_of(seat) is Signal.CLOSED


async def test_hub_last_seat_gone_leaves_nothing_behind() -> None:
    hub = LiveHub()
    with hub.join(KEY):
        assert hub._seats
    assert hub._seats == {}
