"""One HTTP exchange: authentication, request id, idempotency key, the one retry policy, errors as exceptions."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
from httpx_sse import EventSource

from placet.client import errors

ATTEMPTS = 4
FIRST_PAUSE_S = 0.2
# `POST /api/chat` answers after 30 s at the latest.
TIMEOUT_S = 60.0
# The server sends a comment on idle event streams long before this.
STREAM_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer. `body` is the JSON document, or None when there is none."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Transport:
    """Who calls and under which request id. Copies made by `with_request_id` share the connection pool."""

    http: httpx.AsyncClient
    token: str
    request_id: str | None = None

    def with_request_id(self, request_id: str) -> Transport:
        return replace(self, request_id=request_id)

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        return _answer(await self._send("GET", path, params=_without_none(params)))

    async def get_bytes(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
        return (await self._send("GET", path, params=_without_none(params))).content

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """With `files`, `body` goes as form fields of the same multipart request."""
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        content: dict[str, Any] = {"data": body, "files": files} if files else {"json": body}
        return _answer(await self._send("POST", path, headers=headers, **content))

    async def put(self, path: str, body: Mapping[str, Any]) -> Answer:
        return _answer(await self._send("PUT", path, json=body))

    async def delete(self, path: str) -> None:
        await self._send("DELETE", path)

    @asynccontextmanager
    async def stream(self, path: str, last_event_id: int) -> AsyncIterator[EventSource]:
        """A server-sent event stream after the event with this id. Raises like every other call."""
        headers = {**self._headers(), "Accept": "text/event-stream"}
        if last_event_id:
            headers["Last-Event-ID"] = str(last_event_id)
        timeout = httpx.Timeout(TIMEOUT_S, read=STREAM_SILENCE_S)
        try:
            async with self.http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    raise errors.from_response(response.status_code, await response.aread())
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise errors.ApiError(response.status_code, "internal", f"{path} is not an event stream")
                yield EventSource(response)
        except httpx.TransportError as error:
            raise errors.unreachable(path, error) from error

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.request_id:
            headers["X-Request-ID"] = self.request_id
        return headers

    async def _send(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **content: Any
    ) -> httpx.Response:
        """Send, and again when no answer came or the server is not ready: every call here is safe to repeat.

        Reads are, PUT and DELETE say the same thing twice, and a POST carries one idempotency key for all attempts.
        """
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                response = await self.http.request(
                    method, path, headers={**self._headers(), **(headers or {})}, **content
                )
            except httpx.TransportError as error:
                if last or isinstance(error, httpx.ReadTimeout):
                    raise errors.unreachable(path, error) from error
            else:
                if response.is_success:
                    return response
                if last or response.status_code not in (502, 503):
                    raise errors.from_response(response.status_code, response.content)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("the last attempt returns or raises")


def _without_none(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _answer(response: httpx.Response) -> Answer:
    body = response.json() if response.content else None
    return Answer(response.status_code, body, dict(response.headers))
