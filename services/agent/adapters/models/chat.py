"""One way to talk to a chat model, whichever it is: time limits, bounded retries, and no half answers.

The client libraries' own defaults wait without end, sleep as long as a server asks, and take a stream that was cut in
the middle for an answer. So retries are made here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from pydantic import BaseModel

from placet.contracts.tools import Route
from placet.observability import logs
from services.agent.adapters.models.prompts import (
    VERSION,
    compose_messages,
    condense_messages,
    openai_tools,
    plan_messages,
    route_messages,
)
from services.agent.domain.asking import ComposePrompt, Condensed, Guess, Planned, PlannedCall, PlanPrompt, Spoken
from services.agent.errors import ModelUnavailableError

log = logs.get(__name__)

_ATTEMPTS = 3
_FIRST_PAUSE_S = 0.4
_LONGEST_PAUSE_S = 5.0
_COMPLETE = frozenset({"stop", "tool_calls", "function_call"})
_CUT = "cut_stream"
_WORTH_REPEATING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class RouteChoice(BaseModel):
    """What kind of question this is."""

    route: Literal["direct", "fixed_rag", "summary", "agentic_rag", "version_tool", "business_query", "business_action"]


class LangChainModel:
    """Implements `Model`.

    `failures` are the exceptions by which the client library says that a call failed. `judges`: it can be asked what
    a question is and to say something shorter; the offline model thinks in the rules that were asked before it.
    """

    def __init__(
        self, chat: BaseChatModel, failures: tuple[type[Exception], ...] = (), *, judges: bool = False, name: str = ""
    ) -> None:
        self._chat = chat
        self.version = f"{name}.{VERSION}"
        self._judges = judges
        self._failures: tuple[type[Exception], ...] = (*failures, OSError, TimeoutError)

    async def route(self, question: str, *, timeout_s: float) -> Guess:
        """One attempt, in structured output: without an answer the rules' own default is as good."""
        if not self._judges:
            return Guess()
        asked = self._chat.with_structured_output(RouteChoice, method="function_calling", include_raw=True)
        try:
            async with asyncio.timeout(timeout_s):
                reply: Any = await asked.ainvoke(route_messages(question))
        except self._failures as error:
            log.warning("the model chose no route", error=type(error).__name__)
            return Guess()
        choice = reply["parsed"]
        return Guess(Route(choice.route) if isinstance(choice, RouteChoice) else None, _tokens(reply["raw"]))

    async def condense(self, text: str, *, timeout_s: float) -> Condensed:
        if not self._judges:
            return Condensed()
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._chat.ainvoke(condense_messages(text))
        except self._failures as error:
            log.warning("the model condensed nothing", error=type(error).__name__)
            return Condensed()
        return Condensed(reply.text.strip(), _tokens(reply))

    async def plan(self, prompt: PlanPrompt, *, timeout_s: float) -> Planned:
        messages = plan_messages(prompt)
        bound = self._chat.bind_tools(openai_tools(prompt.tools))
        deadline = asyncio.get_running_loop().time() + timeout_s
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with asyncio.timeout_at(deadline):
                    reply: AIMessage = await bound.ainvoke(messages)
            except self._failures as error:
                await _pause_or_give_up(error, attempt, deadline)
            else:
                return _planned(reply)
        raise ModelUnavailableError("no_answer")

    async def compose(self, prompt: ComposePrompt, *, timeout_s: float) -> AsyncGenerator[Spoken, None]:
        messages = compose_messages(prompt)
        deadline = asyncio.get_running_loop().time() + timeout_s
        for attempt in range(1, _ATTEMPTS + 1):
            spoken = False
            try:
                async with aclosing(self._spoken(messages)) as pieces:
                    while (piece := await _next(pieces, deadline)) is not None:
                        spoken = spoken or bool(piece.text)
                        yield piece
                return
            except ModelUnavailableError as error:
                # The stream ended without its end, or for another reason than that all was said.
                if spoken or error.reason != _CUT:
                    raise
                await _pause_or_give_up(error, attempt, deadline)
            except self._failures as error:
                if spoken:
                    raise ModelUnavailableError(_CUT) from error
                await _pause_or_give_up(error, attempt, deadline)
        raise ModelUnavailableError("no_answer")

    async def _spoken(self, messages: list[BaseMessage]) -> AsyncGenerator[Spoken, None]:
        ended = ""
        async for chunk in self._chat.astream(messages):
            ended = str(chunk.response_metadata.get("finish_reason") or ended)
            usage = chunk.usage_metadata if isinstance(chunk, AIMessageChunk) else None
            yield Spoken(chunk.text, usage["total_tokens"] if usage else 0)
        if ended not in _COMPLETE:
            raise ModelUnavailableError(ended or _CUT)


async def _next(pieces: AsyncGenerator[Spoken, None], deadline: float) -> Spoken | None:
    """The next piece, or None at the end. The limit holds here and not around the loop, whose body is the caller's."""
    async with asyncio.timeout_at(deadline):
        return await anext(pieces, None)


def _planned(reply: AIMessage) -> Planned:
    ended = reply.response_metadata.get("finish_reason")
    if ended is not None and ended not in _COMPLETE:
        raise ModelUnavailableError(str(ended))
    calls = [PlannedCall(call["name"], call["args"]) for call in reply.tool_calls]
    calls += [PlannedCall(str(call["name"] or "unnamed"), {}, malformed=True) for call in reply.invalid_tool_calls]
    return Planned(tuple(calls), reply.text.strip(), _tokens(reply))


def _tokens(reply: BaseMessage) -> int:
    usage = reply.usage_metadata if isinstance(reply, AIMessage) else None
    return usage["total_tokens"] if usage else 0


async def _pause_or_give_up(error: Exception, attempt: int, deadline: float) -> None:
    """Sleep before the next attempt; raises `ModelUnavailableError` when there should be none."""
    left_s = deadline - asyncio.get_running_loop().time()
    status = getattr(error, "status_code", None)
    exhausted = getattr(error, "code", None) == "insufficient_quota"
    asked_s = _retry_after(error)
    log.warning("the model failed", error=type(error).__name__, status=status, attempt=attempt)
    final = status is not None and status not in _WORTH_REPEATING
    if attempt == _ATTEMPTS or final or exhausted or asked_s > min(_LONGEST_PAUSE_S, left_s) or left_s <= 0:
        raise ModelUnavailableError(f"http_{status}" if status else type(error).__name__) from error
    pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (attempt - 1)) * (0.5 + random.random())  # noqa: S311 - jitter
    await asyncio.sleep(max(asked_s, pause_s))


def _retry_after(error: Exception) -> float:
    """Seconds that the server asks for; 0 when it does not say."""
    response = getattr(error, "response", None)
    value = response.headers.get("retry-after", "") if response is not None else ""
    try:
        return max(0.0, float(value))
    except ValueError:
        return 0.0
