"""Models for tests: scripted, stubborn, and a spy on what a model is asked."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from services.agent.adapters.models import chat, prompts
from services.agent.adapters.models.chat import LangChainModel
from services.agent.domain.asking import Planned, PlannedCall, PlanPrompt


class Scripted:
    """Plans one round of given calls, then nothing."""

    def __init__(self, *calls: PlannedCall) -> None:
        self.calls = calls

    async def plan(self, prompt: PlanPrompt) -> Planned:
        return Planned(() if prompt.told else self.calls, "", 1)


class Stepwise:
    """Plans one round after the other, then nothing."""

    def __init__(self, *rounds: tuple[PlannedCall, ...]) -> None:
        self.rounds = rounds

    async def plan(self, prompt: PlanPrompt) -> Planned:
        done = len({call.step for call in prompt.told})
        return Planned(self.rounds[done] if done < len(self.rounds) else (), "", 1)


class Stubborn:
    """Always wants the same look-up, or always another one."""

    def __init__(self, *, same: bool, tokens: int = 1) -> None:
        self.same, self.tokens, self.rounds = same, tokens, 0

    async def plan(self, prompt: PlanPrompt) -> Planned:
        self.rounds += 1
        order_id = "A1" if self.same else f"A{self.rounds}"
        calls = [PlannedCall("query_business_data", {"entity": "orders", "order_id": order_id})]
        if not self.same:
            calls.append(PlannedCall("query_business_data", {"entity": "refunds", "order_id": order_id}))
        return Planned(tuple(calls), "", self.tokens)


T = TypeVar("T", Scripted, Stepwise, Stubborn)


def stub(monkeypatch: pytest.MonkeyPatch, model: T) -> T:
    """Let `model` plan in the agents of this process."""

    async def plan(_: Any, prompt: PlanPrompt, *, timeout_s: float) -> Planned:
        return await model.plan(prompt)

    monkeypatch.setattr(LangChainModel, "plan", plan)
    return model


def scripted(monkeypatch: pytest.MonkeyPatch, *calls: PlannedCall) -> None:
    stub(monkeypatch, Scripted(*calls))


def spy_on_model(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything the model is asked from now on, as messages."""
    asked: list[Any] = []
    plan, compose = prompts.plan_messages, prompts.compose_messages

    def recorded(make: Any) -> Any:
        def ask(prompt: Any) -> Any:
            messages = make(prompt)
            asked.append(messages)
            return messages

        return ask

    monkeypatch.setattr(chat, "plan_messages", recorded(plan))
    monkeypatch.setattr(chat, "compose_messages", recorded(compose))
    return asked
