"""Request and reply over one inbox: the client library's own costs a task, a timer and two parses of JSON more.

Everything a service waits for on the bus goes through here: replies to commands, acknowledgements of appends, reads.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import nats.errors
import nats.js.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

_STATUS = "Status"
_NO_RESPONDERS = "503"
_WAITING_LIMIT = 65_536

Take = Callable[[Msg], None]


class Requests:
    """One per connection. Opened before the first request; the subscription lives as long as the connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._prefix = f"{client.new_inbox()}.{secrets.token_hex(8)}."
        self._waiting: dict[str, Take] = {}
        self._count = 0

    async def open(self) -> None:
        await self._client.subscribe(f"{self._prefix}*", cb=self._on_reply, pending_msgs_limit=_WAITING_LIMIT)

    async def _on_reply(self, message: Msg) -> None:
        take = self._waiting.get(message.subject[len(self._prefix) :])
        if take:  # else nobody waits for it any more
            take(message)

    async def ask(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Msg:
        """The one reply. Raises `nats.errors.TimeoutError`, `NoRespondersError`, or another `nats.errors.Error`."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Msg] = loop.create_future()
        token = self._token()
        self._waiting[token] = lambda message: None if reply.done() else reply.set_result(message)
        timer = loop.call_later(timeout_s, _expire, reply)
        try:
            await self._send(subject, payload, token, headers)
            message = await reply
        finally:
            timer.cancel()
            del self._waiting[token]
        if message.headers and message.headers.get(_STATUS) == _NO_RESPONDERS:
            raise nats.errors.NoRespondersError
        return message

    async def collect(self, subject: str, payload: bytes, *, timeout_s: float) -> tuple[list[Msg], str]:
        """All replies up to the one with a status, and that status. `timeout_s` bounds the silence between two."""
        loop = asyncio.get_running_loop()
        messages: list[Msg] = []
        ended: asyncio.Future[str] = loop.create_future()
        token = self._token()
        timer = loop.call_later(timeout_s, _expire, ended)

        def take(message: Msg) -> None:
            nonlocal timer
            if ended.done():
                return
            status = (message.headers or {}).get(_STATUS)
            if status:
                ended.set_result(status)
                return
            messages.append(message)
            timer.cancel()
            timer = loop.call_later(timeout_s, _expire, ended)

        self._waiting[token] = take
        try:
            await self._send(subject, payload, token, None)
            status = await ended
        finally:
            timer.cancel()
            del self._waiting[token]
        if status == _NO_RESPONDERS:
            raise nats.errors.NoRespondersError
        return messages, status

    async def store(self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str]) -> int:
        """Publish to a stream; returns the sequence it got. Raises `nats.js.errors.APIError` when refused."""
        return int((await self.api(subject, payload, timeout_s=timeout_s, headers=headers))["seq"])

    async def api(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """A JSON answer of the server. Raises `nats.js.errors.APIError` for one that says error."""
        message = await self.ask(subject, payload, timeout_s=timeout_s, headers=headers)
        try:
            answer = orjson.loads(message.data)
        except orjson.JSONDecodeError as error:
            raise nats.errors.Error("an answer that is no JSON") from error
        if "error" in answer:
            raise nats.js.errors.APIError.from_error(answer["error"])
        return dict(answer)

    def _token(self) -> str:
        """Not to be guessed from an earlier one: whoever was asked once knows the prefix."""
        self._count += 1
        return f"{self._count:x}{secrets.token_hex(6)}"

    async def _send(self, subject: str, payload: bytes, token: str, headers: Mapping[str, str] | None) -> None:
        sent = dict(headers) if headers else None
        await self._client.publish(subject, payload, reply=self._prefix + token, headers=sent)


def _expire(waiting: asyncio.Future[Any]) -> None:
    if not waiting.done():
        waiting.set_exception(nats.errors.TimeoutError())
