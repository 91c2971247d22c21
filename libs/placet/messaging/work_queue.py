"""Durable consumers of events and timers: handled when a slot is free, acknowledged when done, delivered again if not.

A worker that dies leaves its job unacknowledged: the server hands it to another one after `ack_wait_s`. A job may
therefore come twice; what makes its effect happen once is the ledger, not the queue. A failed job comes again with a
growing delay and without end: reactions are idempotent, and nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nats.aio.msg import Msg

from placet.contracts.errors import PlacetError
from placet.contracts.topology import Durable
from placet.identity.signing import EventVerifier
from placet.messaging import wire
from placet.messaging.connection import Bus
from placet.messaging.pull import PullConsumer
from placet.messaging.reading import Stored, stored
from placet.observability import logs, metrics
from placet.observability.context import bound

log = logs.get(__name__)

# Short at the top: deliveries that only asked for patience (a dead worker still holds the lease) are attempts, too.
_BACKOFF_S = (0.2, 0.5, 1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Job:
    """One delivery. `attempt` counts from 1."""

    event: Stored
    attempt: int


@dataclass(frozen=True, slots=True)
class Signal:
    """One message by its place: `time` is when the server stored it, by the server's clock."""

    subject: str
    seq: int
    time: datetime
    attempt: int


class RetryLater(Exception):
    """The handler asks to be called again after `delay_s`."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(f"retry in {delay_s} s")
        self.delay_s = delay_s


JobHandler = Callable[[Job], Awaitable[None]]
SignalHandler = Callable[["Signal"], Awaitable[None]]
AlarmHandler = Callable[[str, str], Awaitable[None]]


class WorkQueue:
    """Runs `handler` for every event of a durable, at most `concurrency` at a time.

    Events with a bad signature, or that are no events of ours, are never handled: `alarm` is called with a kind and
    the subject, and the message is terminated for this consumer (it stays on its stream).
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
        self._durable = durable
        self._handler = handler
        self._verifier = verifier
        self._alarm = alarm
        self._pull = PullConsumer(bus, durable, self._take, concurrency=concurrency)

    async def start(self) -> None:
        await self._pull.start()

    async def stop(self, grace_s: float = 10.0) -> None:
        """Take no more; let running jobs finish for up to `grace_s`, then leave them to redelivery."""
        await self._pull.stop(grace_s)

    async def _take(self, message: Msg) -> None:
        sequence = message.metadata.sequence.stream
        event = stored(message.subject, sequence, message.data, message.headers or {}, self._verifier)
        if event is None or event.verified is False:
            if self._alarm:
                await self._alarm("bad_signature" if event else "not_an_event", message.subject)
            await message.term()
            metrics.QUEUE_MESSAGES.labels(self._durable.name, "terminated").inc()
            return
        # The subject says whose it is: permissions and signatures hold for it, not for the envelope.
        context = replace(wire.context_of(event.envelope), tenant=event.tenant)
        attempt = message.metadata.num_delivered or 1
        with bound(context):
            await _settle(self._durable, message, self._handler(Job(event, attempt)))


class SignalQueue:
    """Runs `handler` for messages that are no events: fired timers, changed keys. Where they lie says everything."""

    def __init__(self, bus: Bus, durable: Durable, handler: SignalHandler, *, concurrency: int = 8) -> None:
        self._durable = durable
        self._handler = handler
        self._pull = PullConsumer(bus, durable, self._take, concurrency=concurrency)

    async def start(self) -> None:
        await self._pull.start()

    async def stop(self, grace_s: float = 10.0) -> None:
        await self._pull.stop(grace_s)

    async def _take(self, message: Msg) -> None:
        metadata = message.metadata
        signal = Signal(
            message.subject, metadata.sequence.stream, metadata.timestamp.astimezone(UTC), metadata.num_delivered or 1
        )
        await _settle(self._durable, message, self._handler(signal))


async def _settle(durable: Durable, message: Msg, work: Awaitable[None]) -> None:
    """Do the work and tell the server how it ended."""
    outcome = "done"
    try:
        await work
    except RetryLater as later:
        outcome = "later"
        await message.nak(delay=later.delay_s)
    except Exception as error:
        outcome = "failed"
        attempt = message.metadata.num_delivered or 1
        code = error.code.value if isinstance(error, PlacetError) else type(error).__name__
        log.warning("job failed", durable=durable.name, attempt=attempt, code=code, exc_info=True)
        await message.nak(delay=_BACKOFF_S[min(attempt, len(_BACKOFF_S)) - 1])
    else:
        await message.ack()
    metrics.QUEUE_MESSAGES.labels(durable.name, outcome).inc()
