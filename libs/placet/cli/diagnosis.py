"""`placet doctor`: what `placet up` needs, looked at one by one."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from placet.cli import places
from placet.cli.state_dir import StateDir
from placet.cli.supervisor.ports import is_free

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """`needed` False: a nicety whose absence is only told."""

    what: str
    good: bool
    detail: str
    needed: bool = True

    @property
    def hinders(self) -> bool:
        return self.needed and not self.good

    @property
    def mark(self) -> str:
        return "✓" if self.good else "✗" if self.needed else "–"

    def as_json(self) -> dict[str, object]:
        return asdict(self)


async def examine(state: StateDir, url: str | None) -> list[Finding]:
    """Everything, in the order in which `placet up` would need it; `url` adds a running gateway's readiness."""
    findings = [
        Finding("python", sys.version_info >= OLDEST_PYTHON, platform.python_version()),
        _looked_up("nats-server", _nats_server),
        _looked_up("postgres", _postgres),
        await asyncio.to_thread(_opa),
        _looked_up("policies", lambda: str(places.policy_dir())),
        _looked_up("demo world", lambda: str(places.seeds_dir())),
        _writable(state.root),
        _ports(state),
    ]
    if url is not None:
        findings.append(await _gateway(url))
    return findings


def _looked_up(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except (OSError, RuntimeError) as error:
        return Finding(what, False, str(error))


def _nats_server() -> str:
    from placet.messaging.server import binary

    return binary()


def _postgres() -> str:
    from placet.storage.embedded.binaries import binaries

    return str(binaries())


def _opa() -> Finding:
    from placet.policy.opa_binary import find_opa

    found = find_opa(places.project_dir() / ".placet")
    detail = str(found) if found else "none: the embedded engine will decide (`make opa` obtains one)"
    return Finding("opa", found is not None, detail, needed=False)


def _writable(directory: Path) -> Finding:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return Finding("state directory", existing.is_dir() and os.access(existing, os.W_OK | os.X_OK), str(directory))


def _ports(state: StateDir) -> Finding:
    """Ports of last time that somebody else has taken; a `placet up` that is alive holds them itself."""
    import json

    from placet.cli.state_dir import StateDirInUseError

    try:
        remembered = json.loads(state.ports.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Finding("ports", True, "any free ones will be chosen", needed=False)
    try:
        with state.locked():
            taken = [f"{name} {port}" for name, port in remembered.items() if not is_free(port)]
    except StateDirInUseError as error:
        return Finding("ports", True, f"in use by the running one ({error})", needed=False)
    detail = f"taken since last time, others will be chosen: {', '.join(taken)}" if taken else "as last time"
    return Finding("ports", not taken, detail, needed=False)


async def _gateway(url: str) -> Finding:
    from placet.client import PlacetClient

    async with PlacetClient(url, "") as client:
        checks = await client.readiness()
    if not checks:
        return Finding("gateway", False, f"{url} does not answer")
    bad = [name for name, good in checks.items() if not good]
    return Finding("gateway", not bad, f"{url} {'is ready' if not bad else 'waits for ' + ', '.join(bad)}")
