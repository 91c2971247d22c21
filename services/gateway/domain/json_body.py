"""JSON as the gateway takes it: what a later hop could not store or write again is refused here.

The standard parser lets pass NaN, half a surrogate pair and nesting without end; databases and other parsers do not.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

MAX_DEPTH = 64


def parse(body: bytes) -> Any:
    """The value of a JSON body. Raises `json.JSONDecodeError`."""
    value = orjson.loads(body)
    _check(value)
    return value


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                deeper.extend(item)
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        if not deeper:
            return
        level = deeper
    raise json.JSONDecodeError("nested too deep", "", 0)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise json.JSONDecodeError("a NUL character", "", 0)
