"""`placet provision`."""

from __future__ import annotations

from typing import Annotated

import typer


def provision(
    seed_demo: Annotated[
        bool | None,
        typer.Option("--seed-demo/--no-seed-demo", envvar="PLACET_SEED_DEMO", help="Load the demo world too."),
    ] = None,
) -> None:
    """Prepare the bus and the database: streams and buckets, roles, migrations. Safe to repeat.

    Reads PLACET_NATS_URL, PLACET_NATS_SEED_FILE (of the user `provision`), PLACET_DATABASE_ADMIN_URL and
    PLACET_DATABASE_{OWNER,EXECUTOR,AGENT,APPROVAL,READER}_PASSWORD: the passwords the database roles get.
    """
    import asyncio

    from pydantic import ValidationError

    from placet.cli.output import fail
    from placet.cli.provisioning.run import provision as work
    from placet.cli.provisioning.settings import Settings
    from placet.observability import logs

    try:
        settings = Settings() if seed_demo is None else Settings(seed_demo=seed_demo)
    except ValidationError as error:
        missing = ", ".join("PLACET_" + str(item["loc"][0]).upper() for item in error.errors(include_input=False))
        fail(f"not set, or not usable: {missing}", 2)
    logs.configure("provision", settings.log_level)
    asyncio.run(work(settings, typer.echo))
