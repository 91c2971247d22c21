"""What one run may use (U3). Counting is the agent's; the executor and policy count again on their side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placet.contracts.execution import Budget


@dataclass(frozen=True, slots=True)
class Limits:
    """`steps`: rounds of planning or retrieval. `wall_s`: seconds of driving, waiting for people not counted."""

    steps: int = 8
    tool_calls: int = 12
    tokens: int = 60_000
    wall_s: float = 120.0
    parallel: int = 4

    def as_facts(self) -> dict[str, float]:
        """For `GET /api/runs/{id}`."""
        return {
            "steps": float(self.steps),
            "tool_calls": float(self.tool_calls),
            "tokens": float(self.tokens),
            "elapsed_s": self.wall_s,
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used so far. `active_s`: seconds of driving, over all workers."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    active_s: float = 0.0

    @classmethod
    def of(cls, counted: Mapping[str, float] | None) -> Usage:
        found = counted or {}
        return cls(
            steps=int(found.get("steps", 0)),
            tool_calls=int(found.get("tool_calls", 0)),
            tokens=int(found.get("tokens", 0)),
            active_s=float(found.get("active_s", 0.0)),
        )

    def as_budget(self) -> Budget:
        return Budget(steps=self.steps, tool_calls=self.tool_calls, tokens=self.tokens)


def added(old: dict[str, float] | None, new: dict[str, float] | None) -> dict[str, float]:
    """Counters laid together: nodes report what they used, never totals, so a node that runs again counts once."""
    names = {*(old or {}), *(new or {})}
    return {name: (old or {}).get(name, 0) + (new or {}).get(name, 0) for name in sorted(names)}


def reached(usage: Usage, limits: Limits) -> str | None:
    """Which limit allows no further round, or None."""
    checks = (
        ("steps", usage.steps >= limits.steps),
        ("tool_calls", usage.tool_calls >= limits.tool_calls),
        ("tokens", usage.tokens >= limits.tokens),
        ("wall_s", usage.active_s >= limits.wall_s),
    )
    return next((name for name, over in checks if over), None)
