"""Streaming an answer in small batches, so that a client sees it grow and a stream is not a thousand events."""

from __future__ import annotations

import time

from services.agent.ports import RunLog

_BATCH_CHARS = 40
_BATCH_S = 0.05


class Deltas:
    """Collects the answer and appends it piece by piece as `message-delta`.

    A worker that died may have streamed the beginning already. As long as the new text begins the same, only what is
    new is sent; when it does not, nothing more is: `run-completed` carries the whole answer in any case.
    """

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._rests_on: tuple[str, ...] = ()
        self._sent = log.record.streamed
        self._text = ""
        self._in_step = True
        self._flushed_at = time.monotonic()

    @property
    def empty(self) -> bool:
        return not self._text.strip()

    def rest_on(self, versions: tuple[str, ...]) -> None:
        """The document versions that all further text may quote."""
        self._rests_on = versions

    async def line(self, *lines: str) -> None:
        """Whole lines; empty ones are left out."""
        for text in lines:
            if text:
                await self.new_line()
                await self.add(text)

    async def new_line(self) -> None:
        if self._text and not self._text.endswith("\n"):
            self._text += "\n"

    async def add(self, piece: str) -> None:
        self._text += piece
        waiting = len(self._text) - len(self._sent)
        if waiting >= _BATCH_CHARS or (waiting > 0 and time.monotonic() - self._flushed_at >= _BATCH_S):
            await self._flush()

    async def restart(self, *lines: str) -> None:
        """Another answer in place of the one begun: clients learn it with `run-completed`."""
        self._text = ""
        self._in_step = not self._sent
        await self.line(*lines)

    async def close(self) -> str:
        """The whole answer."""
        self._text = self._text.strip()
        await self._flush()
        return self._text

    async def _flush(self) -> None:
        self._flushed_at = time.monotonic()
        if not self._in_step or len(self._text) <= len(self._sent):
            return
        if not self._text.startswith(self._sent):
            self._in_step = False
            return
        await self._log.append("message-delta", {"text": self._text[len(self._sent) :]}, self._rests_on)
        self._sent = self._text
