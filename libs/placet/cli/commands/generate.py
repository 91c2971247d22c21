"""`placet generate`."""

from __future__ import annotations

from typing import Annotated

import typer


def generate(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when something is out of date.")] = False,
    accept_breaking: Annotated[
        bool, typer.Option("--accept-breaking", help="Let golden files of unreleased messages change.")
    ] = False,
) -> None:
    """Make AsyncAPI, OpenAPI, the bus's accounts and the golden files from the contracts (in a checkout)."""
    from placet.cli.generate import main

    arguments = [flag for flag, given in (("--check", check), ("--accept-breaking", accept_breaking)) if given]
    raise typer.Exit(main(arguments))
