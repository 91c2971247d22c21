"""The knowledge pack: its tools, and the store they read."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts.errors import PlacetError
from placet.packs.knowledge.publishing import ApplyPublishDecisionTool, CreatePublishProposalTool
from placet.packs.knowledge.reader import Reader
from placet.packs.knowledge.reading import GetDocumentSourceTool, ReadDocumentVersionTool, SearchKnowledgeTool
from placet.toolkit import PackEnvironment, ToolSpec


class KnowledgePack:
    """Tools on the knowledge store. Without `open` the declarations are there and every call is refused."""

    name = "knowledge"

    def __init__(self) -> None:
        self._reader = Reader()
        kinds = (
            SearchKnowledgeTool,
            GetDocumentSourceTool,
            ReadDocumentVersionTool,
            CreatePublishProposalTool,
            ApplyPublishDecisionTool,
        )
        self._tools = tuple(kind(self._reader).spec() for kind in kinds)

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def open(self, environment: PackEnvironment) -> None:
        """Connections are made at the first call, so a database that is down does not keep the pack from opening."""
        self._reader.open(environment)

    async def ready(self) -> bool:
        try:
            await self._reader.database.ping()
        except PlacetError:
            return False
        return True

    async def close(self) -> None:
        await self._reader.close()
