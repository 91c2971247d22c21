"""What a model is asked and what it answers: plain values, the same for every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.contracts.tools import Route, ToolDescriptor


@dataclass(frozen=True, slots=True)
class ToldCall:
    """An earlier call as a model is told of it: `answer` is fenced text."""

    call_id: str
    step: int
    tool: str
    args: dict[str, Any]
    answer: str


@dataclass(frozen=True, slots=True)
class PlanPrompt:
    question: str
    query: str
    tools: tuple[ToolDescriptor, ...]
    told: tuple[ToldCall, ...]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """`malformed`: the model's arguments were no JSON object; there is nothing to execute."""

    tool: str
    args: dict[str, Any]
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    calls: tuple[PlannedCall, ...]
    say: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ComposePrompt:
    """`material` is everything the answer may rest on, fenced."""

    question: str
    query: str
    material: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """A piece of an answer; `tokens` counts what was used since the piece before."""

    text: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Guess:
    """What a model takes a question for; None when it gave no usable answer or is not to be asked."""

    route: Route | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Condensed:
    """A shorter wording; empty when there is none."""

    text: str = ""
    tokens: int = 0
