"""Signed events: a signature holds for one subject, one place in the history and one payload (A2, L2)."""

from __future__ import annotations

import base64

import pytest
from joserfc.jwk import ECKey

from placet.identity import keys
from placet.identity.signing import EventSigner, EventVerifier, Signature
from placet.testkit.builders import Keys

KEYS = Keys()
SIGNER = KEYS.approval_signer()
VERIFIER = KEYS.approval_verifier()
SUBJECT = "placet.acme.approval.evt.approved.v1.prop-1"
PAYLOAD = b'{"by":"dave"}'
GENUINE = SIGNER.sign(SUBJECT, 7, PAYLOAD)


@pytest.mark.spec("A2")
def test_signature_over_exactly_this_event_holds() -> None:
    assert VERIFIER.verify(GENUINE, SUBJECT, 7, PAYLOAD)


@pytest.mark.spec("A2", "L2")
@pytest.mark.parametrize(
    ("subject", "previous", "payload"),
    [
        ("placet.acme.approval.evt.approved.v1.prop-2", 7, PAYLOAD),
        ("placet.globex.approval.evt.approved.v1.prop-1", 7, PAYLOAD),
        ("placet.acme.approval.evt.rejected.v1.prop-1", 7, PAYLOAD),
        ("placet.acme.tool-executor.evt.approved.v1.prop-1", 7, PAYLOAD),
        (SUBJECT, 6, PAYLOAD),
        (SUBJECT, 8, PAYLOAD),
        (SUBJECT, 0, PAYLOAD),
        (SUBJECT, -1, PAYLOAD),
        (SUBJECT, 7, b'{"by":"mike"}'),
        (SUBJECT, 7, PAYLOAD + b" "),
        (SUBJECT, 7, b""),
        (SUBJECT + "\n7", 7, PAYLOAD),
    ],
)
def test_signature_elsewhere_does_not_hold(subject: str, previous: int, payload: bytes) -> None:
    assert not VERIFIER.verify(GENUINE, subject, previous, payload)


@pytest.mark.spec("A2")
def test_signature_by_another_key_does_not_hold() -> None:
    other = KEYS.effect_signer().sign(SUBJECT, 7, PAYLOAD)
    assert not VERIFIER.verify(other, SUBJECT, 7, PAYLOAD)
    assert not VERIFIER.verify(Signature(SIGNER.key_id, other.value), SUBJECT, 7, PAYLOAD)


def test_signature_missing_or_garbled_does_not_hold() -> None:
    garbled = ["", "A", "AAAA", "é", "=" * 10, GENUINE.value[:-8], GENUINE.value.swapcase(), "\x00" * 88]
    assert not VERIFIER.verify(None, SUBJECT, 7, PAYLOAD)
    for value in garbled:
        assert not VERIFIER.verify(Signature(SIGNER.key_id, value), SUBJECT, 7, PAYLOAD), value
    assert not VERIFIER.verify(Signature("", GENUINE.value), SUBJECT, 7, PAYLOAD)


def test_signature_moves_no_byte_between_subject_and_sequence() -> None:
    """`a.1` after 2 and `a.` after 12 must not be the same message."""
    signed = SIGNER.sign("placet.a.b.evt.c.v1.x1", 2, PAYLOAD)
    assert not VERIFIER.verify(signed, "placet.a.b.evt.c.v1.x", 12, PAYLOAD)


def test_old_key_beside_the_new_one_still_verifies() -> None:
    """Rotation: both keys are known until no event of the old one is read any more."""
    new = keys.generate()
    both = EventVerifier([KEYS.approval, new])
    assert both.verify(GENUINE, SUBJECT, 7, PAYLOAD)
    assert both.verify(EventSigner(new).sign(SUBJECT, 8, PAYLOAD), SUBJECT, 8, PAYLOAD)
    assert not EventVerifier([new]).verify(GENUINE, SUBJECT, 7, PAYLOAD)


def test_verifier_needs_only_the_public_half() -> None:
    (public,) = keys.key_set(KEYS.approval).keys
    assert EventVerifier([public]).verify(GENUINE, SUBJECT, 7, PAYLOAD)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        EventSigner(public)  # type: ignore[arg-type]


def test_keys_of_another_kind_are_not_taken() -> None:
    key = ECKey.generate_key("P-256", private=True)
    with pytest.raises(TypeError):
        EventSigner(key)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        EventVerifier([key])  # type: ignore[list-item]


def test_signature_is_of_64_bytes() -> None:
    assert len(base64.urlsafe_b64decode(GENUINE.value)) == 64


@pytest.mark.spec("A2", "L2")
@pytest.mark.parametrize(
    ("subject", "previous", "payload", "holds"),
    [
        (SUBJECT, 7, PAYLOAD, True),
        ("placet.acme.approval.evt.approved.v1.prop-2", 7, PAYLOAD, False),
        (SUBJECT, 8, PAYLOAD, False),
        (SUBJECT, 7, b'{"by":"mike"}', False),
    ],
    ids=["the very event", "another subject", "another place", "another payload"],
)
def test_owner_that_remembers_its_signature_takes_it_for_that_event_alone(
    subject: str, previous: int, payload: bytes, holds: bool
) -> None:
    signer = KEYS.approval_signer()
    made = signer.sign(SUBJECT, 7, PAYLOAD)
    own = EventVerifier([KEYS.approval], signer)
    assert own.verify(made, subject, previous, payload) is holds


@pytest.mark.spec("A2", "L2")
def test_owner_that_does_not_remember_a_signature_computes_it() -> None:
    own = EventVerifier([KEYS.approval], KEYS.approval_signer())
    assert own.verify(GENUINE, SUBJECT, 7, PAYLOAD)
    assert not own.verify(Signature(GENUINE.key_id, GENUINE.value[:-4] + "AAA="), SUBJECT, 7, PAYLOAD)
