"""What the knowledge room needs from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from sqlalchemy import TextClause
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.knowledge.parsed import ParsedDocument


class Answer(Protocol):
    """Rows of a statement that was sent."""

    async def rows(self) -> Sequence[Any]:
        """All of them, once; columns are attributes."""
        ...


class Pipeline(Protocol):
    """A read-only transaction whose statements do not wait for each other's rows."""

    async def send(self, statement: TextClause, parameters: Mapping[str, Any]) -> Answer: ...


class Database(Protocol):
    """Transactions as the least-privilege role; `placet.storage.Database` is one."""

    def transaction(
        self, *, local: Mapping[str, str] | None = None, read_only: bool = False
    ) -> AbstractAsyncContextManager[AsyncConnection]:
        """One transaction; `local` are settings that end with it."""
        ...

    def pipeline(self, *, local: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Pipeline]:
        """The same for reading, when there are many small statements. Rows may be fetched after its end, too."""
        ...

    @property
    def spare(self) -> int:
        """How many more connections could be had now without keeping anybody waiting."""
        ...


class OriginalStore(Protocol):
    """Original files by key, byte for byte."""

    async def put(self, key: str, data: bytes) -> None:
        """Store durably; the same key is only ever written with the same bytes."""
        ...

    async def get(self, key: str) -> bytes:
        """Raises KeyError when there is no such file."""
        ...

    async def read(self, key: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`, without reading the rest. Raises KeyError."""
        ...


class StagedStore(Protocol):
    """Files that arrive in parts, invisible until they are whole."""

    async def stage(self, upload: str, index: int, data: bytes) -> int:
        """Store a part; returns its place."""
        ...

    async def adopt(self, upload: str, key: str, places: Sequence[int], *, part: int, size: int, sha256: str) -> None:
        """Make the parts the original `key`. Raises ValueError when they are not what was announced."""
        ...

    async def discard(self, upload: str, key: str) -> None:
        """Let go of the parts, unless they are the original `key`."""
        ...


class FileParser(Protocol):
    """Files to text; `placet.knowledge.parser.Parser` does it in child processes."""

    @property
    def max_bytes(self) -> int:
        """Larger files are refused, and need not be fetched to learn that."""
        ...

    async def parse(self, filename: str, data: bytes) -> ParsedDocument:
        """Raises ParseError."""
        ...


class Embedder(Protocol):
    """Text to vectors. `model` names the vector space; `weight` is its say beside that of words, which is 1."""

    @property
    def model(self) -> str: ...

    @property
    def weight(self) -> float: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit-length vector per text; an empty list means that this embedder has none to give.

        Raises PlacetError `dependency_unavailable` or `timeout`.
        """
        ...
