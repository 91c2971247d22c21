"""A response of server-sent events that lets go of clients which no longer read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from placet.contracts.errors import PlacetError
from placet.observability import logs, metrics

log = logs.get(__name__)

# A client that takes no byte for so long is gone, or as good as gone.
_SEND_TIMEOUT_S = 30.0
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStreamResponse(StreamingResponse):
    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], status_code: int = 200) -> None:
        super().__init__(frames, status_code, _HEADERS)

    async def stream_response(self, send: Send) -> None:
        async def timely(message: Message) -> None:
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await send(message)

        frames = self.body_iterator
        if not isinstance(frames, AsyncGenerator):
            raise TypeError("an event stream is an asynchronous generator: it is closed when the client leaves")
        with metrics.SSE_CLIENTS.track_inprogress():
            async with aclosing(frames):
                try:
                    await self._send_all(frames, timely)
                except TimeoutError:
                    # The answer stays unfinished: the server closes the connection, the client may come back.
                    log.warning("a client of an event stream takes nothing any more")

    async def _send_all(self, frames: AsyncGenerator[bytes, None], send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in frames:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except PlacetError as error:
            # Nothing wrong may be shown, so the stream ends here; the client takes it up again after its last event.
            log.warning("an event stream was cut short", code=error.code.value)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
