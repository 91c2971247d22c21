"""Ports of the children: chosen once, remembered, kept over restarts."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterable
from pathlib import Path

# Below the kernel's range for outgoing connections, so that nothing takes a port while its child restarts.
RANGE = range(15_000, 30_000)


class PortTakenError(RuntimeError):
    """The port that was asked for is in use."""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose(names: Iterable[str], file: Path, *, wanted: dict[str, int] | None = None) -> dict[str, int]:
    """A free port for every name: the wanted one, else the remembered one, else any. Written to `file`.

    Raises `PortTakenError` for a wanted port that is in use.
    """
    remembered = _read(file)
    ports: dict[str, int] = {}
    for name in names:
        asked = (wanted or {}).get(name)
        if asked is not None:
            if asked in ports.values() or not is_free(asked):
                raise PortTakenError(f"port {asked} is in use; choose another one for {name}")
            ports[name] = asked
            continue
        known = remembered.get(name)
        usable = known is not None and known not in ports.values() and is_free(known)
        ports[name] = known if known is not None and usable else _any_free(set(ports.values()))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(ports, indent=1), encoding="utf-8")
    return ports


def _any_free(taken: set[int]) -> int:
    candidates = random.sample(RANGE, 200)
    return next(port for port in candidates if port not in taken and is_free(port))


def _read(file: Path) -> dict[str, int]:
    try:
        ports = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {str(name): port for name, port in ports.items() if isinstance(port, int)} if isinstance(ports, dict) else {}
