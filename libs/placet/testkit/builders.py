"""Builders of the values tests talk about: valid by default, each field replaceable by keyword."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from joserfc.jwk import OKPKey

from placet.contracts import events, subjects
from placet.contracts.directory import Person
from placet.contracts.envelope import Event
from placet.contracts.policy import Obligations
from placet.contracts.proposals import ActionPacket, Approval, Challenge, Change, Origin, ResourceRef, Rollback
from placet.contracts.tools import Risk
from placet.identity import keys
from placet.identity.grants import GrantMint, GrantVerifier, Purpose
from placet.identity.signing import EventSigner, EventVerifier, Signature
from placet.identity.tokens import LocalIssuer
from placet.messaging import wire
from placet.messaging.append import EXPECTED, MESSAGE_ID, SIGNATURE, SIGNATURE_KEY
from placet.observability.context import RequestContext, new_id

TENANT = "acme"
ISSUER = "https://issuer.test"
AUDIENCE = "placet-test"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "d" * 64


@dataclass(frozen=True, slots=True)
class Keys:
    """One key per purpose, as a deployment has them."""

    grant: OKPKey = field(default_factory=keys.generate)
    approval: OKPKey = field(default_factory=keys.generate)
    effect: OKPKey = field(default_factory=keys.generate)
    audit: OKPKey = field(default_factory=keys.generate)
    issuer: OKPKey = field(default_factory=keys.generate)

    def mint(self) -> GrantMint:
        return GrantMint(self.grant)

    def grants(self) -> GrantVerifier:
        return GrantVerifier(self.grant)

    def approval_signer(self) -> EventSigner:
        return EventSigner(self.approval)

    def approval_verifier(self) -> EventVerifier:
        return EventVerifier([self.approval])

    def effect_signer(self) -> EventSigner:
        return EventSigner(self.effect)

    def effect_verifier(self) -> EventVerifier:
        return EventVerifier([self.effect])

    def local_issuer(self) -> LocalIssuer:
        return LocalIssuer(self.issuer, ISSUER, AUDIENCE)


def person(person_id: str = "alice", **changes: Any) -> Person:
    fields: dict[str, Any] = {
        "id": person_id,
        "tenant": TENANT,
        "name": person_id.title(),
        "active": True,
        "roles": ("employee", "customer_support"),
        "teams": ("support",),
        "clearance": 1,
    }
    return Person(**(fields | changes))


def grant(mint: GrantMint, actor: str = "alice", **changes: Any) -> str:
    """A signed run grant; `purpose=Purpose.REQUEST` for one HTTP call."""
    fields: dict[str, Any] = {
        "tenant": TENANT,
        "actor": actor,
        "purpose": Purpose.RUN,
        "request_id": new_id("req"),
        "lifetime_s": 3600,
        "run_id": "run-1",
    }
    return mint.mint(**(fields | changes))


def origin(**changes: Any) -> Origin:
    fields: dict[str, Any] = {
        "tenant": TENANT,
        "requester": "alice",
        "run_id": "run-1",
        "call_id": "call-1",
        "route": "business_action",
        "conversation_id": "conv-1",
        "intent": "Please refund order A1001, 299, it arrived broken.",
        "request_id": "req-1",
    }
    return Origin(**(fields | changes))


def packet(**changes: Any) -> ActionPacket:
    fields: dict[str, Any] = {
        "tool": "refund_payment",
        "tool_version": "1",
        "title": "Refund a payment",
        "arguments": {"order_id": "A1001", "amount": 299, "reason": "arrived broken"},
        "args_digest": "sha256:" + "a" * 64,
        "schema_hash": "sha256:" + "b" * 64,
        "digest": DIGEST,
        "resource": ResourceRef(type="order", id="A1001", version="1"),
        "permissions": ("refund_payment",),
        "blast_radius": ("order A1001",),
        "preview": (Change(field="refunded", before=0, after=299),),
        "summary": "Refund 299 CNY of order A1001.",
        "rollback": Rollback(),
        "risk": Risk.CRITICAL_FUNDS,
        "policy_revision": "sha256:" + "c" * 64,
        "obligations": Obligations(approver_roles=("finance_approver",), challenge=True),
        "challenge": Challenge(resources=("A1001",), retype="order_id"),
    }
    return ActionPacket(**(fields | changes))


def proposed(proposal_id: str = "prop-1", **changes: Any) -> events.Proposed:
    fields: dict[str, Any] = {
        "proposal_id": proposal_id,
        "idempotency_key": "eff-1",
        "origin": origin(),
        "packet": packet(),
        "expires_at": NOON + timedelta(seconds=900),
    }
    return events.Proposed(**(fields | changes))


def approved(proposal_id: str = "prop-1", by: str = "dave", **changes: Any) -> events.Approved:
    """A final approval: what the executor acts on."""
    approval = Approval(by=by, at=NOON, digest=DIGEST, roles=("finance_approver",))
    fields: dict[str, Any] = {
        "proposal_id": proposal_id,
        "approval": approval,
        "final": True,
        "idempotency_key": "eff-1",
        "origin": origin(),
        "packet": packet(),
        "approvals": (approval,),
        "expires_at": NOON + timedelta(seconds=900),
    }
    return events.Approved(**(fields | changes))


def viewed(proposal_id: str = "prop-1", by: str = "dave") -> events.Viewed:
    return events.Viewed(proposal_id=proposal_id, by=by)


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """A message as its one legitimate writer would store it; tests change what they attack with `headers`."""

    subject: str
    payload: bytes
    headers: dict[str, str]


def signed_message(
    signer: EventSigner, subject: str, data: Event, *, previous: int = 0, signed_as: str | None = None
) -> SignedMessage:
    """A stored event on `subject` after sequence `previous`. `signed_as`: the subject that the signature covers."""
    message_id = new_id("evt")
    parsed = subjects.parse(subject)
    payload = wire.encode(
        message_id=message_id,
        source=f"placet/{parsed.owner}",
        type_=f"placet.{parsed.owner}.{parsed.name}.v1",
        subject=str(parsed.entity),
        context=RequestContext(request_id="req-1", tenant=parsed.tenant),
        tenant=parsed.tenant,
        data=data,
    )
    signature: Signature = signer.sign(signed_as or subject, previous, payload)
    headers = {
        MESSAGE_ID: message_id,
        EXPECTED: str(previous),
        SIGNATURE: signature.value,
        SIGNATURE_KEY: signature.key_id,
    }
    return SignedMessage(subject, payload, headers)
