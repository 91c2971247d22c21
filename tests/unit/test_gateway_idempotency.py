"""What a call does about an entry under its idempotency key."""

from __future__ import annotations

import pytest

from services.gateway.domain.idempotency import (
    ABANDONED_AFTER_S,
    MAX_KEPT_BYTES,
    Answer,
    Entry,
    Verdict,
    acceptable,
    decode,
    encode,
    fingerprint,
    judge,
    kept_headers,
    storage_key,
)
from services.gateway.domain.pacing import pauses

ANSWER = Answer(202, {"content-type": "application/json", "location": "/api/runs/r"}, b'{"run_id":"r"}\nmore')


def test_judge_other_body_is_a_mismatch_even_when_answered() -> None:
    assert judge(Entry("a", 0.0, ANSWER), "b", 1e9) is Verdict.MISMATCH


def test_judge_answered_entry_is_replayed() -> None:
    assert judge(Entry("a", 0.0, ANSWER), "a", 1e9) is Verdict.REPLAY


@pytest.mark.parametrize(
    ("unchanged_s", "verdict"),
    [(0.0, Verdict.WAIT), (ABANDONED_AFTER_S, Verdict.WAIT), (ABANDONED_AFTER_S + 1, "take_over")],
)
def test_judge_marker_without_answer_blocks_only_while_it_is_renewed(unchanged_s: float, verdict: Verdict) -> None:
    assert judge(Entry("a", 1000.0), "a", unchanged_s) is Verdict(verdict)


@pytest.mark.parametrize("status", [200, 201, 202, 403, 404, 409, 413, 422])
def test_definite_answer_is_kept(status: int) -> None:
    assert Answer(status, {}, b"{}").keepable


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503, 504])
def test_answer_of_the_moment_is_not_kept(status: int) -> None:
    assert not Answer(status, {}, b"{}").keepable


def test_answer_too_large_for_the_store_is_not_kept() -> None:
    assert Answer(200, {}, b"x" * MAX_KEPT_BYTES).keepable
    assert not Answer(200, {}, b"x" * (MAX_KEPT_BYTES + 1)).keepable


@pytest.mark.parametrize("entry", [Entry("f", 12.5), Entry("f", 12.5, ANSWER), Entry("f", 0.0, Answer(200, {}, b""))])
def test_entry_survives_the_store_unchanged(entry: Entry) -> None:
    assert decode(encode(entry)) == entry


@pytest.mark.parametrize("value", [b"", b"{}", b"not json\n", b'{"state":"answered"}\n'])
def test_decode_foreign_value_is_refused(value: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        decode(value)


def test_fingerprint_same_json_written_differently_is_the_same() -> None:
    assert fingerprint(b"", b'{"a": 1, "b": [2]}') == fingerprint(b"", b'{"b":[2],"a":1}')


@pytest.mark.parametrize("other", [(b"", b'{"a":2}'), (b"x=1", b'{"a":1}'), (b"", b"not json"), (b"", b"")])
def test_fingerprint_other_content_is_another(other: tuple[bytes, bytes]) -> None:
    assert fingerprint(*other) != fingerprint(b"", b'{"a":1}')


def test_storage_key_differs_by_person_path_and_key() -> None:
    keys = {
        storage_key("acme", "alice", "POST", "/api/runs", "k"),
        storage_key("globex", "alice", "POST", "/api/runs", "k"),
        storage_key("acme", "bob", "POST", "/api/runs", "k"),
        storage_key("acme", "alice", "POST", "/api/chat", "k"),
        storage_key("acme", "alice", "POST", "/api/runs", "k2"),
        storage_key("acme", "alicePOST", "", "/api/runs", "k"),
    }
    assert len(keys) == 6


@pytest.mark.parametrize(("key", "good"), [("a", True), ("x" * 255, True), ("", False), ("x" * 256, False)])
def test_acceptable_key_has_a_sane_length(key: str, good: bool) -> None:
    assert acceptable(key) is good


@pytest.mark.parametrize("key", ["schlüssel", "a\tb", "a\x00"])
def test_acceptable_key_is_printable_ascii(key: str) -> None:
    assert not acceptable(key)


def test_kept_headers_leave_out_what_belongs_to_one_call() -> None:
    headers = {"content-type": "a", "location": "b", "x-request-id": "c", "content-length": "9"}
    assert kept_headers(headers) == {"content-type": "a", "location": "b"}


def test_pauses_grow_and_add_up_to_the_limit() -> None:
    found = list(pauses(10.0))
    assert sum(found) == pytest.approx(10.0)
    assert found[0] < found[3] <= 1.0
    assert len(found) < 25
