"""`python -m tests.integration.dying_workers`: agent services that kill themselves with SIGKILL, each at one moment.

Every line on standard input, `NODE WHEN`, lets one be born; its exit status is the answer on standard output. They are
forked from this process, which has imported everything: a new one costs a connection, not an interpreter.

WHEN is `before` (its boundary: the step before it is stored), `between` (right after the first event that the node
appends) or `after` (its work is done, nothing of it is stored). The process kills itself, so that it dies at exactly
that instruction; nothing of this is in the service.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from services.agent import app
from services.agent.adapters.graph import build
from services.agent.adapters.run_log import StreamRunLog


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(node: str, when: str) -> None:
    """Wrap the place where every node is put into the graph, and the place where every event is appended."""
    metered, append = build._metered, StreamRunLog.append
    inside = False

    def wrapped(name: str, work: Any) -> Any:
        async def dies(state: Any, drive: Any) -> Any:
            nonlocal inside
            if when == "before":
                die()
            inside = True
            update = await work(state, drive)
            die()
            return update

        return metered(name, dies if name == node else work)

    async def appended(log: StreamRunLog, name: str, data: dict[str, Any], *more: Any) -> bool:
        fresh = await append(log, name, data, *more)
        if inside and when == "between" and fresh:
            die()
        return fresh

    build.__dict__["_metered"] = wrapped
    type.__setattr__(StreamRunLog, "append", appended)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            dying(*line.split())
            app.main()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
