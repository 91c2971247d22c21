"""What a run that is taken up again meets: whether it goes on, plans anew, or is given up (U4, B5).

Nothing here loosens a check. Every call is decided anew by the executor with the rights of that moment; this only
keeps a run from going on with a plan made for another world.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from placet.contracts.digests import canonical
from placet.contracts.tools import ToolDescriptor

GRAPH, PROMPT, TOOLS, POLICY = "graph", "prompt", "tools", "policy"


class Verdict(StrEnum):
    """`replan`: what was planned and not yet asked for is dropped. `abandon`: nothing more is driven."""

    CONTINUE = "continue"
    REPLAN = "replan"
    ABANDON = "abandon"


@dataclass(frozen=True, slots=True)
class Finding:
    """`reasons` are stable words, empty when nothing has changed."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


OWNER_LEFT = "owner_inactive"


def reconsider(then: Mapping[str, str], now: Mapping[str, str], *, active: bool | None, evidence_gone: bool) -> Finding:
    """`then` and `now` name versions; one that either side does not know says nothing.

    A changed policy alone is no reason to plan anew: every call that was planned is put to it again.
    """
    if active is False:
        return Finding(Verdict.ABANDON, (OWNER_LEFT,))
    changed = [name for name in (GRAPH, PROMPT, TOOLS, POLICY) if _differs(then.get(name), now.get(name))]
    reasons = [f"{name}_changed" for name in changed] + (["evidence_gone"] if evidence_gone else [])
    if GRAPH in changed:
        return Finding(Verdict.ABANDON, tuple(reasons))
    replan = evidence_gone or PROMPT in changed or TOOLS in changed
    return Finding(Verdict.REPLAN if replan else Verdict.CONTINUE, tuple(reasons))


def _differs(then: str | None, now: str | None) -> bool:
    return bool(then and now and then != now)


def toolset_version(tools: Iterable[ToolDescriptor]) -> str:
    """What a model is told it can call: names, versions and schemas."""
    told = sorted([tool.name, tool.version, canonical(tool.input_schema).decode()] for tool in tools)
    return short_digest(canonical(told))


def short_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Parked:
    """A run that waits for people, and what each open proposal rests on: `proposal -> chunk ids`."""

    run_id: str
    owner: str
    route: str
    rests: Mapping[str, tuple[str, ...]]

    @property
    def chunks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chunk for chunks in self.rests.values() for chunk in chunks))

    def concerned_by(self, kind: str, name: str) -> bool:
        """Whether a change of this person, or of this document, can touch the run. Anything unknown may."""
        if kind == "person":
            return self.owner == name
        if kind == "document":
            return any(chunk.split(":", 1)[0] == name for chunk in self.chunks)
        return True


def to_withdraw(parked: Parked, readable: Iterable[str], *, active: bool | None) -> tuple[str, ...]:
    """Proposals whose owner has left, or that rest on evidence their owner may read no longer."""
    if active is False:
        return tuple(parked.rests)
    kept = set(readable)
    return tuple(proposal for proposal, chunks in parked.rests.items() if not kept.issuperset(chunks))
