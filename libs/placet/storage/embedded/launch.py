"""Becomes the PostgreSQL server: clears what a killed server left, drops root, ties its life to the parent, execs.

Run by path, not as a module, so that a restart does not pay for importing `placet`. The process id stays the same from
start to end, so whoever supervises this process supervises the server itself.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
ORPHAN_GRACE_S = 5.0
SHUTDOWN_GRACE_S = 10.0


def main() -> None:
    args = _arguments()
    data = Path(args.data)
    clear_leftovers(data)
    if args.uid is not None:
        os.setgroups([])
        os.setgid(args.gid)
        os.setuid(args.uid)
    _die_with_parent(args.parent)
    # A clean environment: the supervisor's may hold secrets of other services.
    os.execve(args.command[0], args.command, {"PATH": os.defpath, "LC_ALL": "C"})  # noqa: S606 (no shell involved)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--parent", type=int)
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def _die_with_parent(parent: int | None) -> None:
    """Ask the kernel for a fast shutdown (SIGINT) when the supervisor dies. After setuid: that would clear it."""
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:
        sys.exit("the supervisor is gone")


def clear_leftovers(data: Path) -> None:
    """Make a start possible after SIGKILL of the postmaster or of its supervisor.

    Safe because the caller holds the lock of this data directory: no other owner can be running a server on it.
    Two obstacles exist: a live or reused process id in `postmaster.pid`, and orphaned backends that still hold the
    shared memory of the dead postmaster.
    """
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    if pid in _servers_in(data):
        _stop(pid, signal.SIGINT, SHUTDOWN_GRACE_S)
    for orphan in _servers_in(data):
        _stop(orphan, signal.SIGTERM, ORPHAN_GRACE_S)
    pid_file.unlink(missing_ok=True)  # the id may belong to somebody else's process by now


def _servers_in(data: Path) -> set[int]:
    """Process ids of PostgreSQL processes whose working directory is `data`."""
    import psutil

    found: set[int] = set()
    for process in psutil.process_iter(["name"]):
        if process.info["name"] != "postgres":
            continue
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()) == data:
                found.add(process.pid)
    return found


def _stop(pid: int, first: signal.Signals, grace_s: float) -> None:
    """Signal, wait, then SIGKILL. A killed backend of a dead postmaster loses nothing: recovery replays the log."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.send_signal(first)
        deadline = time.monotonic() + grace_s
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                process.kill()
                deadline += grace_s
            time.sleep(0.02)


if __name__ == "__main__":
    main()
