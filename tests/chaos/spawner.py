"""Imports a service once and then starts it as often as asked, each time as a process of its own, in milliseconds.

`python -m tests.chaos.spawner MODULE` reads one JSON line per start (`env`, `log`) and writes the new
process's id.
The services under test are killed and started again a hundred times: importing them anew costs seconds each time.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any, NoReturn

import time_machine

CLOCK_OFF_S = "CHAOS_CLOCK_OFF_S"
"""A variable of one service: how far the clock of its processes is wrong, in seconds."""

_PR_SET_PDEATHSIG = 1


def main() -> None:
    module = importlib.import_module(sys.argv[1])
    for name in sys.argv[2:]:
        importlib.import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        _bury()
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(module, order)
        print(pid, flush=True)
    os._exit(0)


def _bury() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(module: Any, order: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(order["env"])
        _put_clock_off(float(order["env"].get(CLOCK_OFF_S, 0)))
        module.main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception:  # noqa: BLE001 - it is the end of this process, whatever it is
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _put_clock_off(seconds: float) -> None:
    """Everything in this process that asks what time it is gets another answer; durations stay what they are."""
    if seconds:
        time_machine.travel(time.time() + seconds, tick=True).start()


if __name__ == "__main__":
    main()
