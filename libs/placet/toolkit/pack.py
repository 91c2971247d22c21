"""A pack is a set of tools that open and close together; it comes from an entry point of the group `placet.tools`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from placet.toolkit.context import Actor
from placet.toolkit.spec import ToolSpec


class OriginalStore(Protocol):
    """Original files, byte for byte, by key."""

    async def put(self, key: str, data: bytes) -> None: ...

    async def get(self, key: str) -> bytes:
        """Raises `KeyError` when there is no such key."""
        ...

    async def read(self, key: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`, without reading the rest. Raises `KeyError`."""
        ...


class ScopeResolver(Protocol):
    """What an actor may read, asked of policy at that moment. The answer is policy's value, as JSON."""

    async def __call__(self, actor: Actor) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class PackEnvironment:
    """What the executor hands to a pack when it opens it. `settings` are the pack's own, from `PLACET_PACK_*`.

    `readonly_database_url` connects as a role that may read a few views and nothing else; empty where there is none.
    """

    database_url: str
    originals: OriginalStore
    scope: ScopeResolver
    settings: dict[str, str] = field(default_factory=dict)
    readonly_database_url: str = ""


class ToolPack(Protocol):
    """One pack. `tools()` may be called before `open` (to list declarations); handlers run only after it."""

    name: str

    def tools(self) -> Sequence[ToolSpec]: ...

    async def open(self, environment: PackEnvironment) -> None: ...

    async def ready(self) -> bool: ...

    async def close(self) -> None: ...
