"""What one run may use (U3). Counting is the agent's; the executor and policy count again on their side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placet.contracts.execution import Budget


@dataclass(frozen=True, slots=True)
class Limits:
    """`steps`: rounds of planning or retrieval. `wall_s`: seconds of driving, waiting for people not counted.

    `tenant_cost`: what all runs of a tenant may spend on models in one day (UTC), 0 for no limit; `token_price`: the
    cost of a thousand tokens, in the same money. `outage_s`: how long a run waits for a part of the house that is away.
    """

    steps: int = 8
    tool_calls: int = 12
    tokens: int = 60_000
    wall_s: float = 120.0
    parallel: int = 4
    tenant_cost: float = 0.0
    token_price: float = 0.0
    outage_s: float = 90.0

    def cost_of(self, tokens: int) -> float:
        return round(tokens * self.token_price / 1000, 6)

    def as_facts(self) -> dict[str, float]:
        """For `GET /api/runs/{id}`."""
        facts = {
            "steps": float(self.steps),
            "tool_calls": float(self.tool_calls),
            "tokens": float(self.tokens),
            "elapsed_s": self.wall_s,
        }
        return facts | ({"cost": self.tenant_cost} if self.tenant_cost else {})


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

    def as_budget(self, limits: Limits) -> Budget:
        cost = limits.cost_of(self.tokens)
        return Budget(steps=self.steps, tool_calls=self.tool_calls, tokens=self.tokens, cost=cost)


def added(old: dict[str, float] | None, new: dict[str, float] | None) -> dict[str, float]:
    """Counters laid together: nodes report what they used, never totals, so a node that runs again counts once."""
    names = {*(old or {}), *(new or {})}
    return {name: (old or {}).get(name, 0) + (new or {}).get(name, 0) for name in sorted(names)}


def reached(usage: Usage, limits: Limits) -> str | None:
    """Which limit allows no further round, or None."""
    checks = (
        ("steps", usage.steps >= limits.steps),
        ("tool_calls", usage.tool_calls >= limits.tool_calls),
    )
    return next((name for name, over in checks if over), None) or silenced(usage, limits)


def silenced(usage: Usage, limits: Limits) -> str | None:
    """Which limit allows no further word of a model, or None. The last round may still be put into words."""
    if usage.tokens >= limits.tokens:
        return "tokens"
    return "wall_s" if usage.active_s >= limits.wall_s else None
