"""Masking of personal fields where policy obliges to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

MASK = "•••"


def masked(value: Any, fields: Collection[str]) -> Any:
    """A copy with every field of these names, at any depth, replaced. Absent values stay absent."""
    if not fields:
        return value
    if isinstance(value, dict):
        return {
            name: (MASK if name in fields and item is not None else masked(item, fields))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [masked(item, fields) for item in value]
    return value
