"""Streams, buckets, consumers and trust domains as data: provisioning and permissions are made from this."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Domain(StrEnum):
    """A trust domain is a NATS account: a subject of one does not exist in another unless it is exported to it."""

    EDGE = "EDGE"
    AGENT = "AGENT"
    CORE = "CORE"
    AUDIT = "AUDIT"


SERVICE_DOMAIN: dict[str, Domain] = {
    "gateway": Domain.EDGE,
    "agent": Domain.AGENT,
    "tool-executor": Domain.CORE,
    "approval": Domain.CORE,
    "memory": Domain.CORE,
    "provision": Domain.CORE,
    "auditor": Domain.AUDIT,
}
USERS: tuple[str, ...] = tuple(SERVICE_DOMAIN)

# Stored events are published again under this prefix, only after they are on disk: what outsiders may follow.
STORED_PREFIX = "stored"
# Outside CORE the JetStream API is reached under this prefix, import by import.
CORE_API_PREFIX = "core.api"


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream. `append_only` means no delete, no purge, no age limit."""

    name: str
    subjects: tuple[str, ...]
    append_only: bool = True
    work_queue: bool = False
    schedules: bool = False
    republish: bool = False
    duplicate_window_s: float = 120.0


STREAMS: tuple[Stream, ...] = (
    Stream("APPROVALS", ("placet.*.approval.evt.>",), republish=True),
    Stream("EFFECTS", ("placet.*.tool-executor.evt.>",), republish=True),
    Stream("RUNS", ("placet.*.agent.evt.>",), republish=True),
    Stream("AUDIT", ("placet.*.audit.evt.>",), republish=True),
    Stream("SEALS", ("placet.*.seal.evt.>",), republish=True),
    Stream("DOCUMENTS", ("placet.*.knowledge.evt.>",), republish=True),
    Stream("RUN_QUEUE", ("placet.*.agent.cmd.start-run.v1.*",), append_only=False, work_queue=True),
    Stream("TIMERS", ("timers.>",), append_only=False, schedules=True),
)


@dataclass(frozen=True, slots=True)
class Durable:
    """A durable pull consumer. `user` is the only one that may fetch from it and acknowledge.

    `only_new`: begins with what is stored after its creation; otherwise with the first message of the stream.
    `ack_wait_s` is how long a dead worker's message waits for another one; a live worker says three times as often
    that it is at work. What may not be done twice at a time has a lease or a compare-and-set of its own, so the time
    is short; only an effect in progress gets more.
    """

    name: str
    stream: str
    filters: tuple[str, ...]
    user: str
    ack_wait_s: float = 4.0
    max_deliver: int = -1
    max_ack_pending: int = 1000
    only_new: bool = False


DURABLES: tuple[Durable, ...] = (
    Durable("agent__run-queue-v1", "RUN_QUEUE", ("placet.*.agent.cmd.start-run.v1.*",), "agent"),
    Durable("agent__proposal-completed-v1", "APPROVALS", ("placet.*.approval.evt.completed.v1.*",), "agent"),
    Durable(
        "agent__rights-changed-v1",
        "AUDIT",
        ("placet.*.audit.evt.directory-changed.v1.*", "placet.*.audit.evt.document-changed.v1.*"),
        "agent",
    ),
    Durable(
        "tool-executor__approved-v1",
        "APPROVALS",
        ("placet.*.approval.evt.approved.v1.*", "placet.*.approval.evt.edited.v1.*"),
        "tool-executor",
        ack_wait_s=6.0,
    ),
    # Open effects: an unacknowledged job is the durable timer after which the tool is asked again what became of it.
    Durable(
        "tool-executor__claimed-v1",
        "EFFECTS",
        ("placet.*.tool-executor.evt.claimed.v1.*",),
        "tool-executor",
        ack_wait_s=30.0,
        max_ack_pending=20_000,
    ),
    Durable(
        "tool-executor__unknown-v1",
        "EFFECTS",
        ("placet.*.tool-executor.evt.unknown.v1.*",),
        "tool-executor",
        ack_wait_s=30.0,
        max_ack_pending=20_000,
    ),
    Durable(
        "tool-executor__verification-failed-v1",
        "EFFECTS",
        ("placet.*.tool-executor.evt.verification-failed.v1.*",),
        "tool-executor",
    ),
    Durable(
        "tool-executor__version-received-v1",
        "DOCUMENTS",
        ("placet.*.knowledge.evt.version-received.v1.*",),
        "tool-executor",
    ),
    Durable(
        "tool-executor__rebuild-started-v1",
        "DOCUMENTS",
        ("placet.*.knowledge.evt.rebuild-started.v1.*",),
        "tool-executor",
    ),
    Durable(
        "approval__effect-finished-v1",
        "EFFECTS",
        tuple(
            f"placet.*.tool-executor.evt.{name}.v1.*"
            for name in ("failed", "unknown", "verified", "verification-failed")
        ),
        "approval",
    ),
    Durable(
        "approval__decided-v1",
        "APPROVALS",
        tuple(
            f"placet.*.approval.evt.{name}.v1.*"
            for name in (
                "proposed",
                "approved",
                "edited",
                "rejected",
                "responded",
                "cancelled",
                "expired",
                "superseded",
                "regraded",
                "completed",
            )
        ),
        "approval",
    ),
    Durable(
        "approval__projection-v1",
        "APPROVALS",
        tuple(
            f"placet.*.approval.evt.{name}.v1.*"
            for name in ("waiting-for-human", "regraded", "approved", "edited", "completed")
        ),
        "approval",
    ),
    Durable("approval__directory-v1", "KV_DIRECTORY", ("$KV.DIRECTORY.>",), "approval", only_new=True),
    Durable("approval__timers-v1", "TIMERS", ("timers.fire.approval.>",), "approval"),
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A key-value bucket. `readers`/`writers` are users; `ttl_s` 0 keeps values until they are deleted."""

    name: str
    readers: tuple[str, ...]
    writers: tuple[str, ...]
    ttl_s: float = 0.0
    key_ttl: bool = False
    history: int = 1


BUCKETS: tuple[Bucket, ...] = (
    Bucket("DIRECTORY", ("tool-executor", "approval"), ("tool-executor",), history=10),
    Bucket("MEMORY", ("memory",), ("memory",), ttl_s=30 * 86_400.0),
    Bucket("LEASES", ("agent",), ("agent",), key_ttl=True),
    Bucket("RUN_CONTROL", ("agent",), ("agent",), ttl_s=7 * 86_400.0),
    Bucket("IDEMPOTENCY", ("gateway",), ("gateway",), ttl_s=86_400.0),
    Bucket("OPEN_PROPOSALS", ("approval",), ("approval",), key_ttl=True),
    Bucket("PRESENCE", ("tool-executor",), ("tool-executor",), key_ttl=True),
    Bucket("COUNTERS", ("tool-executor",), ("tool-executor",), ttl_s=2 * 86_400.0),
)


@dataclass(frozen=True, slots=True)
class ObjectBucket:
    name: str
    users: tuple[str, ...]


OBJECT_BUCKETS: tuple[ObjectBucket, ...] = (ObjectBucket("ORIGINALS", ("tool-executor",)),)


@dataclass(frozen=True, slots=True)
class StreamReader:
    """A user outside the owner that may read a stream by direct get (never by creating consumers)."""

    stream: str
    user: str


READERS: tuple[StreamReader, ...] = (
    StreamReader("RUNS", "gateway"),
    StreamReader("RUNS", "agent"),
    StreamReader("RUNS", "approval"),
    StreamReader("RUN_QUEUE", "gateway"),
    StreamReader("APPROVALS", "approval"),
    StreamReader("APPROVALS", "tool-executor"),
    StreamReader("EFFECTS", "tool-executor"),
    StreamReader("EFFECTS", "approval"),
    StreamReader("AUDIT", "approval"),
    StreamReader("SEALS", "approval"),
    # What `placet audit verify` reads: by direct get alone, which changes nothing.
    StreamReader("AUDIT", "auditor"),
    StreamReader("APPROVALS", "auditor"),
    StreamReader("EFFECTS", "auditor"),
    StreamReader("SEALS", "auditor"),
)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who may append which events: one service per owner, audit by all."""

    owner: str
    users: tuple[str, ...] = field(default=())


WRITERS: tuple[Writer, ...] = (
    Writer("approval", ("approval",)),
    Writer("tool-executor", ("tool-executor",)),
    Writer("knowledge", ("tool-executor",)),
    Writer("agent", ("agent",)),
    Writer("seal", ("approval",)),
    Writer("audit", ("gateway", "agent", "tool-executor", "approval", "memory")),
)
# Who follows stored events of which owner live (republished, read-only).
FOLLOWERS: dict[str, tuple[str, ...]] = {
    "gateway": ("agent",),
    "auditor": ("approval", "tool-executor", "knowledge", "agent", "audit", "seal"),
}
