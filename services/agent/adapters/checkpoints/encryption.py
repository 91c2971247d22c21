"""Checkpoints encrypted at rest: AES-256-GCM under keys out of a file, so that old ones can be read after a change.

What goes through the serializer is encrypted: calls with their arguments, counters, decisions. LangGraph writes short
strings beside it in plain text, which here are names out of closed lists (route, rule, why planning stopped), node
names and the run's id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from services.agent.errors import UnreadableStateError

_KEY_BYTES = 32
_NONCE_BYTES = 12
_CIPHER = "aes256gcm"


class AesGcm:
    """Implements LangGraph's `CipherProtocol`. The first key encrypts; the name stored says which one decrypts."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise ValueError(f"checkpoints need at least one key of {_KEY_BYTES} bytes, and no other ones")
        self._ciphers = {_name(key): AESGCM(key) for key in keys}
        self._first = _name(keys[0])

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = os.urandom(_NONCE_BYTES)
        return self._first, nonce + self._ciphers[self._first].encrypt(nonce, plaintext, self._first.encode())

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Raises `UnreadableStateError`: a key that is gone, or bytes that somebody has changed."""
        cipher = self._ciphers.get(ciphername)
        if cipher is None:
            raise UnreadableStateError(f"no key is known for {ciphername}")
        nonce, rest = ciphertext[:_NONCE_BYTES], ciphertext[_NONCE_BYTES:]
        try:
            return cipher.decrypt(nonce, rest, ciphername.encode())
        except (InvalidTag, ValueError) as error:
            raise UnreadableStateError("the checkpoint is not what was written") from error


def encrypted(serializer: SerializerProtocol, key_file: Path | None) -> SerializerProtocol:
    """`serializer` as it is without a key file. One key a line, base64 of 32 bytes; the first one encrypts.

    Checkpoints written before there was a key are still read. Raises `OSError`, `ValueError`.
    """
    if key_file is None:
        return serializer
    lines = [line.strip() for line in key_file.read_text(encoding="ascii").splitlines()]
    try:
        keys = [base64.b64decode(line, validate=True) for line in lines if line]
    except binascii.Error as error:
        raise ValueError(f"{key_file} holds a line that is not base64") from error
    return EncryptedSerializer(AesGcm(keys), serializer)


def _name(key: bytes) -> str:
    """The cipher and a fingerprint of the key, which says nothing about it."""
    return f"{_CIPHER}.{hashlib.sha256(b'placet checkpoint key ' + key).hexdigest()[:12]}"
