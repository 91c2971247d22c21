"""Whether two kinds of call can be told apart by how long they take."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

Timed = Callable[[], Awaitable[object]]


async def separation(first: Timed, second: Timed, calls: int) -> float:
    """How well time tells `first` from `second`: 0.5 not at all, 0 or 1 always. `calls` is of both together.

    The chance that a call of one kind takes longer than one of the other (Mann and Whitney's U, scaled): it knows no
    outliers. The kinds alternate by chance within one run, so that whatever else the machine does meets both alike;
    with 1,000 calls of each kind it strays by 0.013 from 0.5 where there is no difference, however busy the machine.
    """
    order = [kind for kind in (0, 1) for _ in range(calls // 2)]
    random.Random(7).shuffle(order)
    for warm_up in (first, second) * 5:
        await warm_up()
    took: tuple[list[float], list[float]] = ([], [])
    for kind in order:
        started = time.perf_counter()
        await (first, second)[kind]()
        took[kind].append(time.perf_counter() - started)
    return _longer(took[0], took[1])


def _longer(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of pairs in which the first is the longer; ties count half."""
    others = np.sort(second)
    below = np.searchsorted(others, first, side="left")
    upto = np.searchsorted(others, first, side="right")
    return float((below + (upto - below) / 2).sum() / (len(first) * len(second)))
