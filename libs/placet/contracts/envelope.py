"""The one envelope: CloudEvents 1.0.2 in structured JSON, for commands and events alike.

Extension attributes (lower case, as CloudEvents asks): `tenant`, `actor`, `correlationid` (the request id, the same
through all hops), `causationid` (the message that led to this one) and `traceparent` (W3C trace context).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


def now() -> datetime:
    """The one clock of messages: UTC, aware."""
    return datetime.now(UTC)


class Command(BaseModel):
    """Base of command payloads: frozen, unknown fields rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Event(BaseModel):
    """Base of event payloads: frozen, unknown fields ignored, so that v1 can gain optional fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Envelope(BaseModel):
    """A CloudEvent. `data` is the payload as JSON; `id` is also sent as `Nats-Msg-Id`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(min_length=1, max_length=200)
    source: str
    type: str
    subject: str
    time: datetime = Field(default_factory=now)
    datacontenttype: Literal["application/json"] = "application/json"
    tenant: str
    actor: str | None = None
    correlationid: str
    causationid: str | None = None
    traceparent: str | None = None
    data: dict[str, Any]
