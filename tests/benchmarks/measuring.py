"""Latencies and throughput of one coroutine function."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """`p50_ms` and `p99_ms` at one call in flight; `per_s` is the rate at the given number in flight."""

    p50_ms: float
    p99_ms: float
    per_s: float


async def measure(
    work: Callable[[int], Awaitable[object]], *, calls: int = 400, in_flight: int = 1, warm_up: int = 40
) -> Measured:
    for number in range(warm_up):
        await work(number)
    latencies: list[float] = []
    numbers = iter(range(warm_up, warm_up + calls))

    async def worker() -> None:
        for number in numbers:
            started = time.perf_counter()
            await work(number)
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    elapsed = time.perf_counter() - started
    latencies.sort()
    return Measured(
        p50_ms=latencies[len(latencies) // 2] * 1e3,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1e3,
        per_s=len(latencies) / elapsed,
    )
