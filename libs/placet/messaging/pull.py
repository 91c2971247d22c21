"""Pulling from a durable consumer: messages are asked for only while slots are free, and arrive without a wait.

The client library's `fetch` waits for a whole batch or its time-out before it hands anything over; here one request is
kept open at the server and every message is taken up as it comes. What was asked for and did not come is told by the
server when the request ends; after a reconnection the count starts anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import nats.errors
import orjson
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from placet.contracts.topology import Durable
from placet.messaging.connection import Bus
from placet.observability import logs

log = logs.get(__name__)

# A worker that is killed leaves its open request behind, and from another account messages go there until it ends,
# to come again only after `ack_wait_s`: hence short ones.
_REQUEST_S = 1.0
_SILENCE_S = _REQUEST_S + 5.0
_STATUS = "Status"
_MISSING = "Nats-Pending-Messages"

Take = Callable[[Msg], Awaitable[None]]


class PullConsumer:
    """Calls `take` for every message, at most `concurrency` at a time, and keeps each alive while it is worked on.

    `take` acknowledges. A message whose worker dies is delivered again after the consumer's `ack_wait_s`. One that is
    delivered again because this process was too slow to say that it is alive is not taken up a second time: the
    acknowledgement of the first delivery holds for it.
    """

    def __init__(self, bus: Bus, durable: Durable, take: Take, *, concurrency: int) -> None:
        self._bus = bus
        self._durable = durable
        self._take = take
        self._concurrency = concurrency
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_hand: set[int] = set()
        self._asked = 0
        self._heard = 0.0
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        self._inbox = self._bus.client.new_inbox()
        self._subscription = await self._bus.client.subscribe(self._inbox, cb=self._on_message)
        self._bus.on_reconnect(self._ask_anew)
        self._loop = asyncio.create_task(self._ask_for_ever())

    async def stop(self, grace_s: float = 10.0) -> None:
        """Ask for no more; let running work finish for up to `grace_s`, then leave it to redelivery."""
        if self._loop:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        if self._subscription and not self._bus.client.is_closed:
            try:
                await self._subscription.unsubscribe()
            except nats.errors.Error:
                log.warning("could not unsubscribe", durable=self._durable.name)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _ask_for_ever(self) -> None:
        subject = f"{self._bus.settings.api_prefix}.CONSUMER.MSG.NEXT.{self._durable.stream}.{self._durable.name}"
        while True:
            self._wake.clear()
            if time.monotonic() - self._heard > _SILENCE_S:
                self._asked = 0
            if self._short():
                await self._ask(subject, self._free())
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._wake.wait()

    def _free(self) -> int:
        return self._concurrency - len(self._tasks) - self._asked

    def _short(self) -> bool:
        """Whether it is time to ask for more: in portions, not one by one."""
        return self._free() > 0 and self._asked <= self._concurrency // 4

    def _wake_if_short(self) -> None:
        if self._short():
            self._wake.set()

    async def _ask(self, subject: str, batch: int) -> None:
        request = orjson.dumps({"batch": batch, "expires": int(_REQUEST_S * 1e9)})
        try:
            await self._bus.client.publish(subject, request, reply=self._inbox)
        except nats.errors.Error as error:
            log.warning("cannot ask for messages", durable=self._durable.name, error=repr(error))
            return
        self._asked += batch
        self._heard = time.monotonic()

    async def _ask_anew(self) -> None:
        self._asked = 0
        self._wake.set()

    async def _on_message(self, message: Msg) -> None:
        self._heard = time.monotonic()
        headers = message.headers or {}
        if _STATUS in headers and not message.reply:
            missing = headers.get(_MISSING, "")
            self._asked = max(0, self._asked - int(missing)) if missing.isdigit() else 0
            if headers[_STATUS] not in ("404", "408"):
                await asyncio.sleep(0.2)  # the consumer has moved, or is being made: not a reason to hammer
        else:
            # An empty message ends a streamed answer between accounts: what else was asked for will not come through.
            self._asked = max(0, self._asked - 1) if message.data else 0
            self._take_up(message)
        self._wake_if_short()

    def _take_up(self, message: Msg) -> None:
        sequence = message.metadata.sequence.stream
        if sequence in self._in_hand:
            log.warning("delivered again while in hand", durable=self._durable.name, sequence=sequence)
            return
        self._in_hand.add(sequence)
        task = asyncio.create_task(self._work(message, sequence))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake_if_short()

    async def _work(self, message: Msg, sequence: int) -> None:
        loop = asyncio.get_running_loop()
        alive = _KeepAlive(loop, message, self._durable.ack_wait_s / 3)
        try:
            await self._take(message)
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("could not acknowledge a message", durable=self._durable.name, error=repr(error))
        finally:
            alive.stop()
            self._in_hand.discard(sequence)


class _KeepAlive:
    """Tells the server every `every_s` seconds that the message is still being worked on; free for short work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, message: Msg, every_s: float) -> None:
        self._loop = loop
        self._message = message
        self._every_s = every_s
        self._handle = loop.call_later(every_s, self._tick)
        self._sending: asyncio.Task[None] | None = None

    def stop(self) -> None:
        self._handle.cancel()

    def _tick(self) -> None:
        self._sending = self._loop.create_task(self._send())
        self._handle = self._loop.call_later(self._every_s, self._tick)

    async def _send(self) -> None:
        try:
            await self._message.in_progress()
        except nats.errors.Error:
            log.warning("could not keep a message alive")
