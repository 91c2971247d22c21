"""Waiting for what other tasks and processes do, without fixed sleeps."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


async def until(
    check: Callable[[], bool] | Callable[[], Awaitable[bool]], *, timeout_s: float = 10.0, what: str = ""
) -> None:
    """Return as soon as `check` is true; raises `AssertionError` naming `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = check()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what or check}")
        await asyncio.sleep(0.01)
