"""Durable pull consumers: a job is fetched only when a slot is free, kept alive while it runs, acknowledged when done.

A worker that dies leaves its job unacknowledged: the server hands it to another one after `ack_wait_s`. A job may
therefore come twice; what makes its effect happen once is the ledger, not the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from placet.contracts.errors import PlacetError
from placet.contracts.topology import Durable
from placet.identity.signing import EventVerifier
from placet.messaging.connection import Bus
from placet.messaging.reading import Stored, stored
from placet.observability import logs, metrics
from placet.observability.context import RequestContext, bound

log = logs.get(__name__)

_FETCH_WAIT_S = 5.0
_BACKOFF_S = (0.5, 1, 2, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True)
class Job:
    """One delivery. `attempt` counts from 1."""

    event: Stored
    attempt: int


class RetryLater(Exception):
    """The handler asks to be called again after `delay_s`."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(f"retry in {delay_s} s")
        self.delay_s = delay_s


JobHandler = Callable[[Job], Awaitable[None]]
AlarmHandler = Callable[[str, Msg], Awaitable[None]]


class WorkQueue:
    """Runs `handler` for every message of a durable, at most `concurrency` at a time.

    Events with a bad signature, or that are no events of ours, are never handled: `alarm` is called and the message
    is terminated for this consumer (it stays on its stream).
    """

    def __init__(
        self,
        bus: Bus,
        durable: Durable,
        handler: JobHandler,
        *,
        concurrency: int,
        verifier: EventVerifier | None = None,
        alarm: AlarmHandler | None = None,
    ) -> None:
        self._bus = bus
        self._durable = durable
        self._handler = handler
        self._verifier = verifier
        self._alarm = alarm
        self._slots = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._fetch_for_ever())

    async def stop(self, grace_s: float = 10.0) -> None:
        """Fetch no more; let running jobs finish for up to `grace_s`, then leave them to redelivery."""
        if self._loop:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _fetch_for_ever(self) -> None:
        while True:
            subscription: JetStreamContext.PullSubscription | None = None
            try:
                subscription = await self._bus.js.pull_subscribe_bind(
                    self._durable.name,
                    stream=self._durable.stream,
                    inbox_prefix=f"{self._bus.settings.inbox_prefix}.".encode(),
                )
                while True:
                    await self._take(subscription)
            except nats.errors.Error as error:
                log.warning("cannot fetch jobs", durable=self._durable.name, error=repr(error))
                await asyncio.sleep(0.2)
            finally:
                # Left open, it would make the connection wait on closing for messages that nobody takes.
                if subscription:
                    with contextlib.suppress(nats.errors.Error):
                        await subscription.unsubscribe()

    async def _take(self, subscription: JetStreamContext.PullSubscription) -> None:
        """Wait for a free slot, then start a task for each job that came within the wait."""
        messages: list[Msg] = []
        await self._slots.acquire()
        try:
            free = self._concurrency - len(self._tasks)
            messages = await subscription.fetch(max(1, free), timeout=_FETCH_WAIT_S)
        except (nats.errors.TimeoutError, TimeoutError):
            pass
        finally:
            self._slots.release()
        for message in messages:
            await self._slots.acquire()
            task = asyncio.create_task(self._run(message))
            self._tasks.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()

    async def _run(self, message: Msg) -> None:
        heartbeat = asyncio.create_task(self._keep_alive(message))
        try:
            outcome = await self._handle(message)
            metrics.QUEUE_MESSAGES.labels(self._durable.name, outcome).inc()
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("could not acknowledge a job", durable=self._durable.name, error=repr(error))
        finally:
            heartbeat.cancel()

    async def _handle(self, message: Msg) -> str:
        metadata = message.metadata
        event = stored(message.subject, metadata.sequence.stream, message.data, message.headers or {}, self._verifier)
        if event is None or event.verified is False:
            if self._alarm:
                await self._alarm("bad_signature" if event else "not_an_event", message)
            await message.term()
            return "terminated"
        context = RequestContext(
            request_id=event.envelope.correlationid,
            tenant=event.tenant,
            actor=event.envelope.actor,
            traceparent=event.envelope.traceparent,
            causation_id=event.envelope.id,
        )
        attempt = metadata.num_delivered or 1
        with bound(context):
            try:
                await self._handler(Job(event, attempt))
            except RetryLater as later:
                await message.nak(delay=later.delay_s)
                return "later"
            except Exception as error:
                code = error.code.value if isinstance(error, PlacetError) else type(error).__name__
                log.warning("job failed", durable=self._durable.name, attempt=attempt, code=code, exc_info=True)
                await message.nak(delay=_BACKOFF_S[min(attempt, len(_BACKOFF_S)) - 1])
                return "failed"
            await message.ack_sync(timeout=5)
            return "done"

    async def _keep_alive(self, message: Msg) -> None:
        while True:
            await asyncio.sleep(self._durable.ack_wait_s / 3)
            try:
                await message.in_progress()
            except nats.errors.Error:
                log.warning("could not keep a job alive", durable=self._durable.name)
