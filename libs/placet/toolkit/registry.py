"""The tools that exist, found by entry points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points

from placet.toolkit.pack import PackEnvironment, ToolPack
from placet.toolkit.spec import ToolSpec

GROUP = "placet.tools"


class DuplicateToolError(ValueError):
    """Two packs declare the same tool name."""


def discover(group: str = GROUP) -> list[ToolPack]:
    """Every installed pack, in name order. A pack that cannot be imported raises: a missing tool must not be silent."""
    return [entry.load()() for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)]


class ToolRegistry:
    """Tools by name, and the packs they come from."""

    def __init__(self, packs: Iterable[ToolPack]) -> None:
        self._packs = list(packs)
        self._tools: dict[str, ToolSpec] = {}
        self._pack_of: dict[str, str] = {}
        for pack in self._packs:
            for tool in pack.tools():
                if tool.name in self._tools:
                    raise DuplicateToolError(f"{tool.name} is declared by {self._pack_of[tool.name]} and {pack.name}")
                self._tools[tool.name] = tool
                self._pack_of[tool.name] = pack.name

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._tools.values())

    def get(self, name: str) -> ToolSpec | None:
        return self._tools.get(name)

    def pack_of(self, name: str) -> str:
        return self._pack_of[name]

    async def open(self, environment: PackEnvironment) -> None:
        for pack in self._packs:
            await pack.open(environment)

    async def ready(self) -> bool:
        return all([await pack.ready() for pack in self._packs])

    async def close(self) -> None:
        for pack in reversed(self._packs):
            await pack.close()
