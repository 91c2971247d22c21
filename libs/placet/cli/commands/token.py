"""`placet token`."""

from __future__ import annotations

from typing import Annotated

import typer

from placet.cli.commands.options import DEFAULT_STATE_DIR, StateDirOption, TenantOption


def token(
    user: Annotated[str, typer.Argument(metavar="USER", help="A person's id, such as alice.")],
    tenant: TenantOption = "acme",
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 31, help="How long it is valid.")] = 24,
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
) -> None:
    """Print a token of the local issuer for USER.

    It says who, never what they may: rights are read from the directory at every call.
    """
    from placet.cli import material
    from placet.cli.output import fail
    from placet.cli.state_dir import StateDir

    try:
        issued = material.tokens(StateDir.at(state_dir).keys, {user: (tenant, user)}, int(hours * 3600))
    except FileNotFoundError:
        fail(f"no issuer key under {state_dir}: `placet up` or `placet keys` makes one")
    typer.echo(issued[user])
