"""How a service process starts its event loop, learns that it should stop, and ends for certain."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import uvloop

from placet.observability import logs

log = logs.get(__name__)

# How long a thread may keep others from running Python, in seconds. The embedded policy engine works on a thread of its
# own: with the default of 5 ms, a busy event loop makes every answer wait that long, and 64 at once run into time-outs.
_SWITCH_S = 0.0005
# New objects between two collections. Nearly all of them are freed by reference counts; the default is 700.
_YOUNG = 20_000
# How long the way out may take once there is nothing left to do.
_LEAVING_S = 5.0


def _collect_less() -> None:
    """What is there after the start stays for good: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, 10)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a service's main coroutine on a uvloop event loop until it returns.

    A service that fails is logged and ends with 1, so that whoever supervises it starts it again. The loop's own way
    out waits for every task that a library has left behind, and before Python 3.12 one of them may lose its
    cancellation: a service that could not connect at its start would hang there for ever.
    """
    sys.setswitchinterval(_SWITCH_S)
    code = 0
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(main)
    except Exception:
        log.exception("service failed")
        code = 1
    last_resort = threading.Timer(_LEAVING_S, _leave, (code,))
    last_resort.daemon = True
    last_resort.start()
    runner.close()
    last_resort.cancel()
    if code:
        sys.exit(code)


async def run_until_stopped() -> None:
    """Return on SIGTERM or SIGINT, so that the service can drain and stop in order. Called when all is started."""
    _collect_less()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _leave(code: int) -> None:
    sys.stderr.flush()
    os._exit(code)
