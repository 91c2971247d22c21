"""Asks for a rebuilding of the index and follows it to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from placet.cli.output import print_json, print_table

if TYPE_CHECKING:
    from placet.client import PlacetClient

_POLL_S = 0.5


async def follow(client: PlacetClient, *, as_json: bool) -> int:
    """Start or join; returns how many versions could not be read again."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    async with client:
        rebuild = await client.documents.start_rebuild()
        with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
            bar = progress.add_task("rebuilding", total=rebuild.total, completed=rebuild.done + rebuild.failed)
            while rebuild.state != "finished":
                await asyncio.sleep(_POLL_S)
                rebuild = await client.documents.rebuild(rebuild.rebuild_id)
                progress.update(bar, completed=rebuild.done + rebuild.failed)
    if as_json:
        print_json(rebuild)
    else:
        print_table(("versions", "rebuilt", "failed"), [(rebuild.total, rebuild.done, rebuild.failed)])
    return rebuild.failed
