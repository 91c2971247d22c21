"""`placet keys`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keys(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to put them; what is there is kept.")],
    database_host: Annotated[str, typer.Option(help="PostgreSQL, as the services reach it.")] = "postgres:5432",
) -> None:
    """Make every key, seed and password of an installation, for docker compose.

    DIR gets nats/ (a seed per bus user, nats.env with the public keys), keys/ (grant, approval, effect, audit and
    issuer key pairs, jwks.json) and postgres/ (an environment file for the server and for each service that stores
    something). DIR itself is closed to other users of this machine; the files in it are readable, because containers
    run as a user of their own.
    """
    from placet.cli.compose_files import write

    written = write(out, database_host)
    typer.echo(f"{len(written)} files in {out}: keep them secret, and keep them")
