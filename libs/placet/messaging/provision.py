"""Creates streams, buckets and consumers from the topology. Runs as the `provision` user, the only one that may."""

from __future__ import annotations

import nats.errors
import nats.js.errors
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RePublish,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from placet.contracts.topology import (
    BUCKETS,
    DURABLES,
    OBJECT_BUCKETS,
    STORED_PREFIX,
    STREAMS,
    Bucket,
    Durable,
    ObjectBucket,
    Stream,
)
from placet.messaging.connection import Bus
from placet.observability import logs

log = logs.get(__name__)


def stream_config(stream: Stream, replicas: int) -> StreamConfig:
    republish = RePublish(src="placet.>", dest=f"{STORED_PREFIX}.placet.>") if stream.republish else None
    return StreamConfig(
        name=stream.name,
        subjects=list(stream.subjects),
        retention=RetentionPolicy.WORK_QUEUE if stream.work_queue else RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW if stream.append_only else DiscardPolicy.OLD,
        num_replicas=replicas,
        allow_direct=True,
        deny_delete=stream.append_only,
        deny_purge=stream.append_only,
        allow_msg_schedules=stream.schedules or None,
        allow_msg_ttl=stream.schedules or None,
        duplicate_window=stream.duplicate_window_s,
        republish=republish,
    )


def _bucket_config(bucket: Bucket, replicas: int) -> StreamConfig:
    return StreamConfig(
        name=f"KV_{bucket.name}",
        subjects=[f"$KV.{bucket.name}.>"],
        storage=StorageType.FILE,
        max_msgs_per_subject=bucket.history,
        max_age=bucket.ttl_s,
        num_replicas=replicas,
        allow_direct=True,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_msg_ttl=bucket.key_ttl or None,
        discard=DiscardPolicy.NEW,
    )


def _object_config(bucket: ObjectBucket, replicas: int) -> StreamConfig:
    return StreamConfig(
        name=f"OBJ_{bucket.name}",
        subjects=[f"$O.{bucket.name}.C.>", f"$O.{bucket.name}.M.>"],
        storage=StorageType.FILE,
        num_replicas=replicas,
        allow_direct=True,
        allow_rollup_hdrs=True,
        discard=DiscardPolicy.NEW,
    )


def _consumer_config(durable: Durable) -> ConsumerConfig:
    single = durable.filters[0] if len(durable.filters) == 1 else None
    return ConsumerConfig(
        durable_name=durable.name,
        filter_subject=single,
        filter_subjects=None if single else list(durable.filters),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=durable.ack_wait_s,
        max_deliver=durable.max_deliver,
        max_ack_pending=durable.max_ack_pending,
        deliver_policy=DeliverPolicy.NEW if durable.only_new else DeliverPolicy.ALL,
    )


async def provision(bus: Bus, *, replicas: int = 1) -> list[str]:
    """Create or update everything; safe to repeat. Returns the names of all streams.

    Raises `nats.js.errors.APIError` when an existing stream cannot be brought to its contract.
    """
    configs = [stream_config(stream, replicas) for stream in STREAMS]
    configs += [_bucket_config(bucket, replicas) for bucket in BUCKETS]
    configs += [_object_config(bucket, replicas) for bucket in OBJECT_BUCKETS]
    for config in configs:
        await _ensure_stream(bus, config)
    for durable in DURABLES:
        await bus.js.add_consumer(durable.stream, _consumer_config(durable))
    names = [str(config.name) for config in configs]
    log.info("bus provisioned", streams=len(names), consumers=len(DURABLES))
    return names


async def _ensure_stream(bus: Bus, config: StreamConfig) -> None:
    try:
        await bus.js.add_stream(config)
    except nats.js.errors.BadRequestError as error:
        if error.err_code != 10058:  # stream name already in use with a different configuration
            raise
        await bus.js.update_stream(config)
