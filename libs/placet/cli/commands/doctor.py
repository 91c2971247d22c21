"""`placet doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from placet.cli.commands.options import DEFAULT_STATE_DIR, JsonOption, StateDirOption


def doctor(
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Also ask this gateway if it is ready.")
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Check what `placet up` needs on this machine; exit code 1 when something that it needs is missing."""
    import asyncio

    from placet.cli.diagnosis import examine
    from placet.cli.output import print_json
    from placet.cli.state_dir import StateDir

    findings = asyncio.run(examine(StateDir.at(state_dir), url))
    for finding in findings:
        if as_json:
            print_json(finding.as_json())
        else:
            typer.echo(f"{finding.mark} {finding.what}: {finding.detail}")
    raise typer.Exit(1 if any(finding.hinders for finding in findings) else 0)
