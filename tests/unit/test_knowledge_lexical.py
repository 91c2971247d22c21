"""The way back from PostgreSQL's rank to a count."""

from __future__ import annotations

import struct

import pytest

from placet.knowledge.lexical import occurrences


def _as_postgresql_answers(count: int) -> float:
    """As a 4-byte float, which is what `ts_rank` returns."""
    exact = 0.1 * sum(1 / (n * n) for n in range(1, count + 1)) / 1.64493406685
    return float(struct.unpack("f", struct.pack("f", exact))[0])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 254, 255])
def test_occurrences_from_a_rank_are_exact(count: int) -> None:
    assert occurrences(_as_postgresql_answers(count)) == count


def test_occurrences_without_a_rank_are_none() -> None:
    assert occurrences(0.0) == 0
