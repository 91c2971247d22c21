"""Signatures of stored events: Ed25519 over (subject, previous sequence, payload).

The subject binds tenant, owner, event name and entity; the previous sequence binds the place in the entity's history,
so a validly signed event cannot be replayed elsewhere or later. The payload goes in as its SHA-256.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc.jwk import OKPKey

_CONTEXT = b"placet-event-v1\n"
_REMEMBERED = 8192


def _message(subject: str, previous: int, payload: bytes) -> bytes:
    return _CONTEXT + f"{subject}\n{previous}\n".encode() + hashlib.sha256(payload).digest()


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature and the id of the key that made it, as they travel in message headers."""

    key_id: str
    value: str


class EventSigner:
    """Signs events with the private key that only one service holds."""

    def __init__(self, key: OKPKey) -> None:
        private = key.private_key
        if not isinstance(private, Ed25519PrivateKey):
            raise TypeError("an event signer needs an Ed25519 private key")
        self._private = private
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self.key_id = str(key.kid)

    def sign(self, subject: str, previous: int, payload: bytes) -> Signature:
        message = _message(subject, previous, payload)
        value = base64.urlsafe_b64encode(self._private.sign(message)).decode()
        self._made[value] = message
        if len(self._made) > _REMEMBERED:
            self._made.popitem(last=False)
        return Signature(self.key_id, value)

    def made(self, signature: Signature, message: bytes) -> bool:
        """Whether this very object has signed just this, lately: then there is nothing to compute."""
        return signature.key_id == self.key_id and self._made.get(signature.value) == message


class EventVerifier:
    """Checks events against the public keys of one owner; several keys make a rotation possible.

    The owner itself gives its signer, too: most of what it reads back it has just signed.
    """

    def __init__(self, keys: Iterable[OKPKey], own: EventSigner | None = None) -> None:
        self._own = own
        self._keys: dict[str, Ed25519PublicKey] = {}
        for key in keys:
            public = key.public_key
            if not isinstance(public, Ed25519PublicKey):
                raise TypeError("an event verifier needs Ed25519 public keys")
            self._keys[str(key.kid)] = public

    def verify(self, signature: Signature | None, subject: str, previous: int, payload: bytes) -> bool:
        """True only for a signature by a known key over exactly these three."""
        public = self._keys.get(signature.key_id) if signature else None
        if signature is None or public is None:
            return False
        message = _message(subject, previous, payload)
        if self._own and self._own.made(signature, message):
            return True
        try:
            public.verify(base64.urlsafe_b64decode(signature.value), message)
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True
