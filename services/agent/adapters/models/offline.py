"""The offline model: a chat model of LangChain that thinks in rules, so that everything runs without a key.

It is an honest model: it sees only the messages, may only call bound tools, and says in its metadata what it is.
The same history always gets the same answer, down to the ids of its tool calls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from services.agent.domain import fence
from services.agent.domain.offline.planner import Turn, plan
from services.agent.domain.offline.speaking import answer

NAME = "placet-offline"
_CHUNK_CHARS = 24
_CHARS_PER_TOKEN = 4


class OfflineChatModel(BaseChatModel):
    """With tools bound it plans; without, it answers from the fenced material in the last message."""

    @property
    def _llm_type(self) -> str:
        return NAME

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_think(messages, kwargs.get("tools")))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(_think(messages, kwargs.get("tools")))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(_think(messages, kwargs.get("tools"))):
            yield chunk


def _think(messages: Sequence[BaseMessage], tools: list[dict[str, Any]] | None) -> AIMessage:
    question, query = _asked(messages)
    if tools is None:
        material = "\n".join(_text(message) for message in messages if isinstance(message, HumanMessage))
        sources, told = fence.read_evidence(material), fence.read_data(material)
        return _message(messages, answer(question, query, sources, told), [])
    names = {tool["function"]["name"] for tool in tools}
    planned = plan(question, query, names, _turns(messages))
    return _message(messages, planned.say, [(call.tool, call.args) for call in planned.calls])


def _text(message: BaseMessage) -> str:
    return message.content if isinstance(message.content, str) else json.dumps(message.content, ensure_ascii=False)


def _asked(messages: Sequence[BaseMessage]) -> tuple[str, str]:
    asked = next((_text(message) for message in messages if isinstance(message, HumanMessage)), "")
    return fence.read_question(asked)


def _turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    called = {call["id"]: call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    turns = []
    for message in messages:
        call = called.get(message.tool_call_id) if isinstance(message, ToolMessage) else None
        if call:
            told = [data for _, data in fence.read_data(_text(message))]
            documents = tuple(source.document for source in fence.read_evidence(_text(message)))
            turns.append(Turn(call["name"], call["args"], (told[0].get("answer") or {}) if told else {}, documents))
    return turns


def _message(messages: Sequence[BaseMessage], text: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> AIMessage:
    history = json.dumps([[m.type, m.content, getattr(m, "tool_calls", None)] for m in messages], default=str)
    seed = hashlib.sha256(history.encode()).hexdigest()[:20]
    asked = sum(len(_text(message)) for message in messages) // _CHARS_PER_TOKEN
    said = (len(text) + sum(len(str(call)) for call in calls)) // _CHARS_PER_TOKEN + 1
    return AIMessage(
        content=text,
        tool_calls=[
            tool_call(name=name, args=args, id=f"call_{seed}_{index}") for index, (name, args) in enumerate(calls)
        ],
        response_metadata={
            "model_name": NAME,
            "offline": True,
            "finish_reason": "tool_calls" if calls else "stop",
        },
        usage_metadata={"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said},
    )


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    text = str(message.content)
    for start in range(0, len(text), _CHUNK_CHARS):
        yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + _CHUNK_CHARS]))
    for index, call in enumerate(message.tool_calls):
        part = tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content="",
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )
