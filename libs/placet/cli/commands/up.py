"""`placet up`."""

from __future__ import annotations

from typing import Annotated

import typer

from placet.cli.commands.options import DEFAULT_STATE_DIR, EngineName, EngineOption, StateDirOption


def up(
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="The gateway's. Default: last time's, else a free one."),
    ] = None,
    policy_engine: EngineOption = EngineName.AUTO,
) -> None:
    """Serve everything on this machine: bus, database, policy engine, demo world and the five services.

    Prints one line on standard output when all is ready: READY {"gateway": ..., "tokens": {...}, ...}. A child that
    dies is started again. Ctrl-C or SIGTERM drains and stops all of it; the state directory keeps the data.
    """
    import asyncio
    import sys

    from placet.cli.supervisor.serve import Options, serve

    def announce(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    options = Options(state_dir=state_dir, port=port, engine=policy_engine.value)
    raise typer.Exit(asyncio.run(serve(options, announce)))
