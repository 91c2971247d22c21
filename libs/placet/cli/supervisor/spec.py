"""What a child is: frozen values, no process yet."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Probe = Callable[[], Awaitable[bool]]

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
STABLE_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child. `command` is asked anew at each start; `environment` is all the child gets.

    `ready` is one look, without patience. `orphan_signal` is what the kernel sends when the supervisor dies; None for
    a command that ties itself to its parent.
    """

    name: str
    command: Callable[[], list[str]]
    environment: Mapping[str, str]
    log: Path
    ready: Probe
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 15.0
    orphan_signal: signal.Signals | None = signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to pause before the next start: doubling, and from the beginning after a long enough life."""

    next_s: float = FIRST_PAUSE_S

    def after(self, lived_s: float) -> tuple[float, Backoff]:
        """The pause after a life of `lived_s` seconds, and what to ask after the next death."""
        pause_s = FIRST_PAUSE_S if lived_s >= STABLE_AFTER_S else self.next_s
        return pause_s, Backoff(min(pause_s * 2, LONGEST_PAUSE_S))
