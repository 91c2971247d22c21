"""What a drive knows beside the state: the run with its grant, evidence, results. In memory, made anew each time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from placet.contracts.execution import ToolReply
from placet.contracts.tools import ToolDescriptor
from services.agent.domain.evidence import Evidence
from services.agent.domain.limits import Limits, Usage
from services.agent.domain.patience import NOT_WAITED, Waited
from services.agent.domain.resume import POLICY, TOOLS, toolset_version
from services.agent.domain.run import Run
from services.agent.ports import Draft, Lease, Offered, RunLog


@dataclass(slots=True)
class DriveContext:
    """One drive of one run by one worker. Never persisted.

    `bodies` are results of reads by call id; `pieces` evidence by chunk id; `said` what the model wrote instead of
    calling a tool; `query` the question with its references resolved; `inflight` calls whose answer is awaited;
    `usage` the counters of the state as the last node saw them; `versions` what this drive works with,
    `stored_versions` what the state holds of that; `stale` are
    calls that were planned for another world; `waited` is what the run has waited before this drive, `unreached` the
    calls of this drive that were delivered to nobody, `mark` when its last node ended.
    """

    run: Run
    log: RunLog
    lease: Lease
    limits: Limits
    usage: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    stored_versions: dict[str, str] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    query: str | None = None
    tools: tuple[ToolDescriptor, ...] | None = None
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    pieces: dict[str, Evidence] = field(default_factory=dict)
    said: str = ""
    draft: Draft | None = None
    inflight: dict[str, asyncio.Task[ToolReply]] = field(default_factory=dict)
    waited: Waited = NOT_WAITED
    unreached: set[str] = field(default_factory=set)
    mark: float = field(default_factory=time.monotonic)

    @property
    def lost_s(self) -> float:
        """Seconds since the last node ended: spent in vain, when this drive ends now."""
        return time.monotonic() - self.mark

    @property
    def patient(self) -> bool:
        """Whether this run may wait on for a part of the house that is away."""
        waited, active = self.waited.seconds + self.lost_s, self.usage.get("active_s", 0.0)
        return waited < self.limits.outage_s and waited + active < self.limits.wall_s

    def remaining_s(self, usage: Usage) -> float:
        """Seconds of driving that are left. `usage.active_s` counts finished nodes, of this drive, too, and what the
        run has waited for parts that were away."""
        return max(0.0, self.limits.wall_s - usage.active_s)

    def learn(self, offered: Offered) -> None:
        """Take the tools that this drive may see from what the executor has just offered."""
        self.tools = offered.tools
        self.versions[TOOLS] = toolset_version(offered.tools)
        if offered.policy_revision:
            self.versions[POLICY] = offered.policy_revision

    def tool(self, name: str) -> ToolDescriptor | None:
        return next((tool for tool in self.tools or () if tool.name == name), None)
