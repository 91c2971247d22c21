"""Which JSON the gateway takes."""

from __future__ import annotations

import json

import pytest

from services.gateway.domain.json_body import MAX_DEPTH, parse


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def test_parse_ordinary_json_gives_its_value() -> None:
    assert parse('{"q": "上海", "n": [1, 2.5, true, null]}'.encode()) == {"q": "上海", "n": [1, 2.5, True, None]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": "\\ud800"}',
        b'\xff{"a": 1}',
        b'{"a": "x\\u0000y"}',
        b'{"a\\u0000": 1}',
        b'[["\\u0000"]]',
        nested(MAX_DEPTH + 1),
        nested(900),
        b"[" * 100_000,
    ],
)
def test_parse_what_a_later_hop_could_not_take_is_refused(body: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse(body)


def test_parse_nesting_up_to_the_limit_is_taken() -> None:
    assert parse(nested(MAX_DEPTH - 1))["a"]


def test_parse_literal_backslash_u_is_no_nul() -> None:
    assert parse(rb'{"a": "\\u0000"}') == {"a": "\\u0000"}
