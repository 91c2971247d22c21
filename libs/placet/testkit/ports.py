"""Free TCP ports for child processes."""

from __future__ import annotations

import socket

_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that this process has not given out before."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port
