"""Looking at real processes from a test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether the process runs (Linux). A zombie that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for something that other processes bring about. Raises `AssertionError` when it does not happen in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not happen within {timeout_s:g} s")
        await asyncio.sleep(0.01)
