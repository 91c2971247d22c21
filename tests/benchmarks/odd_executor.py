"""The tool-executor with one trivial tool more, as a process of its own."""

from __future__ import annotations

from placet.observability import logs
from placet.observability.lifecycle import run, run_until_stopped
from placet.toolkit.registry import discover
from services.tool_executor.app import build
from services.tool_executor.settings import Settings
from tests.integration.odd_tools import OddPack


async def serve() -> None:
    service = await build(Settings(), [*discover(), OddPack()])
    await service.start()
    await run_until_stopped()
    await service.stop()


if __name__ == "__main__":
    logs.configure("tool-executor", "WARNING")
    run(serve())
