"""How a service process starts its event loop and learns that it should stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

# How long a thread may keep others from running Python, in seconds. The embedded policy engine works on a thread of its
# own: with the default of 5 ms, a busy event loop makes every answer wait that long, and 64 at once run into time-outs.
_SWITCH_S = 0.0005
# New objects between two collections. Nearly all of them are freed by reference counts; the default is 700.
_YOUNG = 20_000


def _collect_less() -> None:
    """What is there after the start stays for good: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, 10)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a service's main coroutine on a uvloop event loop until it returns."""
    sys.setswitchinterval(_SWITCH_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def run_until_stopped() -> None:
    """Return on SIGTERM or SIGINT, so that the service can drain and stop in order. Called when all is started."""
    _collect_less()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
