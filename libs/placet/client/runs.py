"""Chat turns, runs and their event streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx

from placet.client.errors import UnavailableError
from placet.client.models import Chat, RunEvent, RunState
from placet.client.transport import Transport

LAST_TYPE = "run.completed"
RECONNECT_PAUSE_S = 0.25
PATIENCE_S = 30.0


class Runs:
    """`client.runs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def chat(self, question: str, conversation_id: str | None = None) -> Chat:
        """Ask and wait: for the answer, for the moment a person must decide, or for 30 s."""
        answer = await self._transport.post("/api/chat", _question(question, conversation_id))
        return Chat.model_validate(answer.body)

    async def start(self, question: str, conversation_id: str | None = None) -> str:
        """Start a run and return its id at once."""
        answer = await self._transport.post("/api/runs", _question(question, conversation_id))
        return str(answer.body["run_id"])

    async def get(self, run_id: str) -> RunState:
        return RunState.model_validate((await self._transport.get(f"/api/runs/{run_id}")).body)

    async def cancel(self, run_id: str) -> None:
        await self._transport.post(f"/api/runs/{run_id}/cancel")

    async def follow(self, run_id: str, *, after: int = 0, patience_s: float = PATIENCE_S) -> AsyncIterator[RunEvent]:
        """The events of a run after sequence `after`, until it has completed.

        A broken connection is taken up again where it was. Raises `UnavailableError` after `patience_s` seconds
        without a connection, and the typed refusals (404 for a run that is not yours).
        """
        seen = after
        connected = time.monotonic()
        while True:
            try:
                async for event in self._stream(run_id, seen):
                    connected = time.monotonic()
                    if event.seq <= seen:
                        continue
                    seen = event.seq
                    yield event
                    if event.type == LAST_TYPE:
                        return
            except UnavailableError:
                if time.monotonic() - connected > patience_s:
                    raise
            await asyncio.sleep(RECONNECT_PAUSE_S)

    async def wait(self, run_id: str, *types: str, timeout_s: float = 60.0) -> RunEvent:
        """The first event of one of these types (or `run.completed`). Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            async for event in self.follow(run_id):
                if event.type in types or event.type == LAST_TYPE:
                    return event
        raise AssertionError("an event stream ends with run.completed")

    async def _stream(self, run_id: str, after: int) -> AsyncIterator[RunEvent]:
        path = f"/api/runs/{run_id}/events"
        try:
            async with self._transport.stream(path, after) as source:
                async for message in source.aiter_sse():
                    if message.data:
                        yield RunEvent.model_validate_json(message.data)
        except httpx.StreamError as error:
            raise UnavailableError(0, "dependency_unavailable", f"the event stream broke: {error}") from error


def _question(question: str, conversation_id: str | None) -> dict[str, str]:
    body = {"question": question}
    return body if conversation_id is None else {**body, "conversation_id": conversation_id}
