"""Writing in groups: what comes while one write is under way goes into the next one, all of it together.

A write begins a moment after its first value, so that values which follow each other closely need one write, not many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

V = TypeVar("V")
Key = tuple[str, ...]


class GroupWriter(Generic[V]):
    """`later` picks the one of two values of the same key that is to stay; both their givers wait for that one.

    A group that cannot be written is tried value by value: what cannot be stored holds up nothing but itself.
    `gather_s`: how long a group waits for more.
    """

    def __init__(
        self, write: Callable[[Sequence[V]], Awaitable[None]], later: Callable[[V, V], V], *, gather_s: float = 0.0
    ) -> None:
        self._write = write
        self._later = later
        self._gather_s = gather_s
        self._next: dict[Key, tuple[V, asyncio.Future[None]]] = {}
        self._writer: asyncio.Task[None] | None = None

    async def put(self, key: Key, value: V) -> None:
        """Returns when `value`, or a later one of the same key, is written. Raises what the write raised."""
        waiting = self._next.get(key)
        if waiting:
            value, done = self._later(value, waiting[0]), waiting[1]
        else:
            done = asyncio.get_running_loop().create_future()
        self._next[key] = (value, done)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        await asyncio.shield(done)

    async def _write_all(self) -> None:
        while self._next:
            await asyncio.sleep(self._gather_s)
            group, self._next = self._next, {}
            try:
                await self._write([group[key][0] for key in sorted(group)])
            except Exception:  # noqa: BLE001 - whose fault it was, and what is to be raised, is found out one by one
                for value, done in group.values():
                    await self._write_one(value, done)
            else:
                for _, done in group.values():
                    done.set_result(None)

    async def _write_one(self, value: V, done: asyncio.Future[None]) -> None:
        try:
            await self._write([value])
        except Exception as error:  # noqa: BLE001 - handed over to whoever waits for it
            done.set_exception(error)
        else:
            done.set_result(None)
