"""Checkpoints under a key: unreadable without it, unchangeable, and still read after the key has changed."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from services.agent.adapters.checkpoints.encryption import AesGcm, encrypted
from services.agent.adapters.checkpoints.guard import GuardedSerializer
from services.agent.errors import UnreadableStateError, UnsafeStateError

STATE = {"calls": [{"tool": "refund_payment", "args": {"order_id": "A1001"}}]}


def key_file(directory: Path, *keys: bytes) -> Path:
    path = directory / "checkpoint.keys"
    path.write_text("\n".join(base64.b64encode(key).decode() for key in keys))
    return path


@pytest.mark.spec("U2")
def test_state_under_a_key_is_read_back_and_stands_nowhere_in_the_bytes(tmp_path: Path) -> None:
    serializer = encrypted(GuardedSerializer(), key_file(tmp_path, os.urandom(32)))
    kind, stored = serializer.dumps_typed(STATE)
    assert b"refund_payment" not in stored
    assert b"A1001" not in stored
    assert serializer.loads_typed((kind, stored)) == STATE
    assert serializer.dumps_typed(STATE)[1] != stored


@pytest.mark.spec("U2")
def test_state_under_an_older_key_or_none_is_still_read(tmp_path: Path) -> None:
    old, new = os.urandom(32), os.urandom(32)
    before = encrypted(GuardedSerializer(), key_file(tmp_path, old)).dumps_typed(STATE)
    after = encrypted(GuardedSerializer(), key_file(tmp_path, new, old))
    assert after.loads_typed(before) == STATE
    assert after.loads_typed(GuardedSerializer().dumps_typed(STATE)) == STATE
    with pytest.raises(UnreadableStateError):
        encrypted(GuardedSerializer(), key_file(tmp_path, new)).loads_typed(before)


@pytest.mark.spec("U2")
def test_state_that_somebody_changed_is_refused() -> None:
    cipher = AesGcm([os.urandom(32)])
    name, stored = cipher.encrypt(b"state")
    for place in range(len(stored)):
        changed = bytes(byte ^ 1 if place == at else byte for at, byte in enumerate(stored))
        with pytest.raises(UnreadableStateError):
            cipher.decrypt(name, changed)


def test_evidence_is_refused_under_a_key_too(tmp_path: Path) -> None:
    serializer = encrypted(GuardedSerializer(), key_file(tmp_path, os.urandom(32)))
    with pytest.raises(UnsafeStateError):
        serializer.dumps_typed({"chunk_id": "d:v1:1", "text": "secret"})


@pytest.mark.parametrize("content", ["", "not base64!", base64.b64encode(b"short").decode()])
def test_key_file_without_a_proper_key_stops_the_start(tmp_path: Path, content: str) -> None:
    path = tmp_path / "checkpoint.keys"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"key|base64"):
        encrypted(GuardedSerializer(), path)
