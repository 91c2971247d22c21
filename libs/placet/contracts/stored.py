"""A message exactly as its stream holds it: what seals are made over and signatures are checked against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """`seq` counts over the whole stream; `time` is when the server stored it (RFC 3339, as the server writes it)."""

    seq: int
    subject: str
    payload: bytes
    headers: Mapping[str, str]
    time: str = ""
