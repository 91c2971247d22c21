"""`Idempotency-Key`: what the first call leaves behind, and what a later one with the same key gets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

# Whoever works under a key writes its marker again this often. A marker that was seen unchanged for so long was left
# behind by a gateway that died. Seen by one's own clock: those of two gateways need not agree.
RENEWED_EVERY_S = 1.5
ABANDONED_AFTER_S = 5.0
# A call waits this long for an earlier one with the same key before it is told to come back.
PATIENCE_S = 8.0
MAX_KEPT_BYTES = 700_000

_KEPT_HEADERS = ("content-type", "location")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it is given again."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def definite(self) -> bool:
        """Whether a repeat must get the same: not what depends on the moment (load, an expired token, an outage)."""
        return self.status < 500 and self.status not in (401, 429)

    @property
    def keepable(self) -> bool:
        return self.definite and len(self.body) <= MAX_KEPT_BYTES


@dataclass(frozen=True, slots=True)
class Entry:
    """What is stored under a key: `started` without an answer, or the answer. `at` (epoch seconds) is for people."""

    fingerprint: str
    at: float
    answer: Answer | None = field(default=None)


class Verdict(StrEnum):
    REPLAY = "replay"
    WAIT = "wait"
    TAKE_OVER = "take_over"
    MISMATCH = "mismatch"


def judge(entry: Entry, fingerprint: str, unchanged_s: float) -> Verdict:
    """What a call does about an entry that is there already, and has not changed while it looked on."""
    if entry.fingerprint != fingerprint:
        return Verdict.MISMATCH
    if entry.answer is not None:
        return Verdict.REPLAY
    return Verdict.TAKE_OVER if unchanged_s > ABANDONED_AFTER_S else Verdict.WAIT


def made_anew(path: str) -> bool:
    """Whether a repeat is answered by looking at the same run again: what an answer quotes may be forbidden by now."""
    return path == "/api/chat"


def acceptable(key: str) -> bool:
    return 1 <= len(key) <= 255 and key.isascii() and key.isprintable()


def storage_key(tenant: str, actor: str, method: str, path: str, key: str) -> str:
    """One person's key for one resource: nobody else's key, and no other path, meets it."""
    return hashlib.sha256(orjson.dumps([tenant, actor, method, path, key])).hexdigest()


def fingerprint(query: bytes, body: bytes) -> str:
    """Of the request's content. The same JSON value written with other spaces is the same body."""
    try:
        content = orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONDecodeError:
        content = body
    return hashlib.sha256(query + b"\n" + content).hexdigest()


def kept_headers(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in _KEPT_HEADERS}


def encode(entry: Entry) -> bytes:
    """A line of JSON, then the body as it is."""
    head: dict[str, object] = {"fingerprint": entry.fingerprint, "at": entry.at, "state": "started"}
    if entry.answer is None:
        return orjson.dumps(head) + b"\n"
    head |= {"state": "answered", "status": entry.answer.status, "headers": entry.answer.headers}
    return orjson.dumps(head) + b"\n" + entry.answer.body


def decode(value: bytes) -> Entry:
    """Raises `ValueError` or `KeyError` for anything that `encode` did not write."""
    line, _, body = value.partition(b"\n")
    head = orjson.loads(line)
    answer = Answer(int(head["status"]), dict(head["headers"]), body) if head["state"] == "answered" else None
    return Entry(str(head["fingerprint"]), float(head["at"]), answer)
