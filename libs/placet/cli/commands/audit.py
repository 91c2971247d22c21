"""`placet audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.commands.options import (
    DEFAULT_STATE_DIR,
    AsOption,
    JsonOption,
    StateDirOption,
    TenantOption,
    TokenOption,
    UrlOption,
    client_of,
)
from placet.cli.commands.running import run

if TYPE_CHECKING:
    from placet.client import PlacetClient

app = typer.Typer(help="The record: who did what, decided by what, approved by whom.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The record: who did what, decided by what, approved by whom."""


@app.command("tail")
def tail(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep waiting for more.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Start after this sequence number.")] = 0,
    type_: Annotated[
        str | None, typer.Option("--type", help="Only records of this type, such as tool-decided.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this person did.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    proposal_id: Annotated[str | None, typer.Option(help="Only this proposal.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Only this request, through all hops.")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
    person: AsOption = "auditor",
    tenant: TenantOption = "acme",
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Print audit records, oldest first. Needs the duty audit.read."""
    filters = {"type_": type_, "actor": actor, "run_id": run_id, "proposal_id": proposal_id, "request_id": request_id}
    run(_tail(client_of(url, token, person, tenant, Path(state_dir)), after, filters, follow=follow, as_json=as_json))


async def _tail(
    client: PlacetClient, after: int, filters: dict[str, str | None], *, follow: bool, as_json: bool
) -> None:
    import asyncio

    from placet.cli.audit_lines import line
    from placet.cli.output import print_json

    async with client:
        while True:
            async for entry in client.audit.events(after=after, **filters):
                after = entry.seq
                if as_json:
                    print_json(entry)
                else:
                    typer.echo(line(entry))
            if not follow:
                return
            await asyncio.sleep(1)
