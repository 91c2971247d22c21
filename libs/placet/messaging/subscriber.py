"""Event subscribers: FastStream over provisioned durable pull consumers.

FastStream's own default would terminate a failed message, which on a stream of decisions means a lost reaction. Here
a failure is answered with a delayed redelivery, without end: reactions are idempotent and nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.security import NatsNKey

from placet.contracts.topology import Durable
from placet.identity.signing import EventVerifier
from placet.messaging.connection import RECONNECT_WAIT_S, BusSettings
from placet.messaging.reading import Stored, stored
from placet.observability import logs, metrics
from placet.observability.context import RequestContext, bound

log = logs.get(__name__)

EventHandler = Callable[[Stored], Awaitable[None]]
SubjectHandler = Callable[[str], Awaitable[None]]
Alarm = Callable[[str, str], Awaitable[None]]

_BACKOFF_S = (0.2, 0.5, 1, 2, 5, 10, 30)


class Subscribers:
    """The event subscribers of one service: its own connection, its own durables."""

    def __init__(self, settings: BusSettings, alarm: Alarm) -> None:
        self._settings = settings
        self._alarm = alarm

        async def on_error(error: Exception) -> None:
            log.warning("subscriber bus error", error=repr(error))

        self._broker = NatsBroker(
            settings.url,
            name=f"{settings.user}-subscribers",
            security=NatsNKey.from_seed(settings.seed),
            inbox_prefix=settings.inbox_prefix,
            js_options={"prefix": settings.api_prefix},
            error_cb=on_error,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # the client takes fractions  # type: ignore[arg-type]  # seconds; the client takes fractions
            pending_size=-1,
            graceful_timeout=10,
            logger=None,
        )

    def on_events(
        self, durable: Durable, handler: EventHandler, *, verifier: EventVerifier | None = None, workers: int = 32
    ) -> None:
        """Call `handler` for every well-formed, validly signed event of the durable."""

        async def consume(_: Any, message: NatsMessage) -> None:
            raw = message.raw_message
            event = stored(raw.subject, raw.metadata.sequence.stream, raw.data, raw.headers or {}, verifier)
            if event is None or event.verified is False:
                await self._alarm("bad_signature" if event else "not_an_event", raw.subject)
                await message.reject()
                return
            context = RequestContext(
                request_id=event.envelope.correlationid,
                tenant=event.tenant,
                actor=event.envelope.actor,
                traceparent=event.envelope.traceparent,
                causation_id=event.envelope.id,
            )
            with bound(context):
                await self._react(durable, message, lambda: handler(event))

        self._subscribe(durable, consume, workers)

    def on_subjects(self, durable: Durable, handler: SubjectHandler, *, workers: int = 8) -> None:
        """Call `handler` with the subject of every message: for timers, whose subject says everything."""

        async def consume(_: Any, message: NatsMessage) -> None:
            await self._react(durable, message, lambda: handler(message.raw_message.subject))

        self._subscribe(durable, consume, workers)

    async def start(self) -> None:
        await self._broker.start()

    async def stop(self) -> None:
        await self._broker.stop()

    def _subscribe(self, durable: Durable, consume: Callable[..., Awaitable[None]], workers: int) -> None:
        subscriber = self._broker.subscriber(
            # Only a label here: the provisioned consumer carries all of its filters.
            durable.filters[0],
            durable=durable.name,
            stream=JStream(durable.stream, declare=False),
            pull_sub=PullSub(batch_size=workers, timeout=5),
            ack_policy=AckPolicy.MANUAL,
            inbox_prefix=f"{self._settings.inbox_prefix}.".encode(),
            max_workers=workers,
        )
        subscriber(consume)

    @staticmethod
    async def _react(durable: Durable, message: NatsMessage, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception:
            attempt = message.raw_message.metadata.num_delivered or 1
            log.warning("reaction failed", durable=durable.name, attempt=attempt, exc_info=True)
            metrics.QUEUE_MESSAGES.labels(durable.name, "failed").inc()
            await message.nack(delay=_BACKOFF_S[min(attempt, len(_BACKOFF_S)) - 1])
            return
        metrics.QUEUE_MESSAGES.labels(durable.name, "done").inc()
        await message.ack()
