"""How often to look at something that is about to change."""

from __future__ import annotations

from collections.abc import Iterator

_FIRST_S = 0.05
_LONGEST_S = 1.0


def pauses(limit_s: float) -> Iterator[float]:
    """Growing pauses between looks, `limit_s` in all."""
    pause = _FIRST_S
    while limit_s > 0:
        yield min(pause, limit_s)
        limit_s -= pause
        pause = min(pause * 1.5, _LONGEST_S)
