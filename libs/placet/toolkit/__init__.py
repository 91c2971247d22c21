"""How a tool is declared. Users write packs with this room and nothing else of `placet`."""

from placet.toolkit.context import Actor, ToolContext
from placet.toolkit.pack import PackEnvironment, ToolPack
from placet.toolkit.results import HandOver, Preview, ResourceView, RollbackPlan, ToolResult, Verification
from placet.toolkit.spec import Hooks, ToolSpec

__all__ = [
    "Actor",
    "HandOver",
    "Hooks",
    "PackEnvironment",
    "Preview",
    "ResourceView",
    "RollbackPlan",
    "ToolContext",
    "ToolPack",
    "ToolResult",
    "ToolSpec",
    "Verification",
]
