"""Timers leave nothing behind for ever: one that has fired and was handled goes from its stream."""

from __future__ import annotations

import pytest

from placet.contracts.envelope import now
from placet.contracts.topology import DURABLES
from placet.messaging import timers as messaging_timers
from placet.messaging.timers import Timers
from placet.messaging.work_queue import Signal, SignalQueue
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until

TIMERS = next(durable for durable in DURABLES if durable.name == "approval__timers-v1")


@pytest.mark.spec("A7")
async def test_timer_that_was_handled_leaves_the_stream_after_a_while(
    own_rig: NatsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messaging_timers, "KEPT_S", 1)
    fired: list[str] = []

    async def handle(signal: Signal) -> None:
        fired.append(signal.subject)

    bus, looking = await own_rig.bus("approval"), await own_rig.bus("provision")
    queue = SignalQueue(bus, TIMERS, handle)
    await queue.start()
    await Timers(bus, "approval").arm("acme", "p1", now())
    await until(lambda: bool(fired))

    async def empty() -> bool:
        return (await looking.js.stream_info("TIMERS")).state.messages == 0

    await until(empty)
    await queue.stop()
    assert len(fired) == 1
