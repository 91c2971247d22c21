"""Waiting for what other tasks and processes do, without fixed sleeps."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

from placet.contracts.errors import PlacetError


async def until(
    check: Callable[[], bool] | Callable[[], Awaitable[bool]], timeout_s: float = 60.0, *, what: str = ""
) -> None:
    """Return as soon as `check` is true; raises `AssertionError` naming `what` after `timeout_s`.

    A check that fails with a retryable error is asked again: on a busy machine a look may time out.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = check()
            if await answer if inspect.isawaitable(answer) else answer:
                return
        except PlacetError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what or check}")
        await asyncio.sleep(0.01)
