"""`placet demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placet.cli.commands.options import EngineName, EngineOption


def demo(
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Against this gateway, with --tokens-file, not an own one."),
    ] = None,
    tokens_file: Annotated[
        Path | None,
        typer.Option(
            "--tokens-file", metavar="FILE", help="The READY line of `placet up`, or a JSON object of tokens."
        ),
    ] = None,
    policy_engine: EngineOption = EngineName.AUTO,
) -> None:
    """Run the main job step by step and check every step; exit code 0 only if all of them hold.

    Starts its own `placet up` in a temporary directory and stops it at the end, unless --url names one. A demo world
    can show the refund and the publishing once: against a used one those steps say so.
    """
    import asyncio

    from placet.cli.demo.run import Target, run_demo

    raise typer.Exit(asyncio.run(run_demo(Target(url, tokens_file, policy_engine.value))))
