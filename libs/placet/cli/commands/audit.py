"""`placet audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

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
    from collections.abc import Coroutine

    from placet.audit.verify import Report
    from placet.client import PlacetClient

T = TypeVar("T")

NatsOption = Annotated[
    str | None, typer.Option("--nats", metavar="URL", help="The bus. Default: that of the local `placet up`.")
]
SeedOption = Annotated[
    Path | None,
    typer.Option(
        "--seed-file", metavar="FILE", help="The bus user auditor's nkey seed. Default: of the state directory."
    ),
]

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


@app.command("verify")
def verify(
    nats: NatsOption = None,
    seed_file: SeedOption = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Prove a copy made by `placet audit export` instead.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="DIR", help="Public keys: audit, approval, effect. Default: of the state directory."
        ),
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", metavar="FILE", help="Keep the last seal here, and insist on finding it next time."),
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Prove that nothing in the record was changed, removed, inserted or reordered, or name the first that was.

    Every event is compared with the seals over it, and every seal's signature is checked with the public keys alone.
    Exit code 0: proven. 1: broken, and the line says where. 2: it could not be checked.

    Events of the last seconds are not sealed yet; the line says how many. With --anchor (kept away from the bus), a
    record that was rolled back to an earlier state is found out, too.
    """
    from placet.cli.output import print_json
    from placet.cli.record import proof
    from placet.cli.record.source import Source
    from placet.cli.state_dir import StateDir

    state = StateDir.at(state_dir)

    async def prove() -> list[Report]:
        heads = proof.read_anchor(anchor) if anchor else {}
        async with Source(state, nats, seed_file, export).open() as archive:
            return await proof.prove(archive, keys or state.keys, heads)

    reports = _possible(prove())
    for report in reports:
        if as_json:
            print_json(proof.document(report))
        else:
            typer.echo(proof.line(report))
    if any(report.broken for report in reports):
        raise typer.Exit(1)
    if anchor:
        proof.write_anchor(anchor, reports)


@app.command("export")
def export_record(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the files; old ones are replaced.")],
    nats: NatsOption = None,
    seed_file: SeedOption = None,
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
) -> None:
    """Copy the record and its seals into files, for `placet audit verify --export DIR` where no bus is."""
    from placet.cli.record import export
    from placet.cli.record.source import Source
    from placet.cli.state_dir import StateDir

    async def copy() -> dict[str, int]:
        async with Source(StateDir.at(state_dir), nats, seed_file).open() as archive:
            return await export.write(archive, directory)

    for stream, count in _possible(copy()).items():
        typer.echo(f"{stream}: {count} events")


def _possible(work: Coroutine[object, object, T]) -> T:
    """The result; what keeps the record from being read at all ends the command with exit code 2."""
    import asyncio

    from placet.cli.commands.running import quiet_logs
    from placet.cli.output import fail
    from placet.cli.record.source import NotThereError
    from placet.contracts.errors import PlacetError

    quiet_logs()
    try:
        return asyncio.run(work)
    except (NotThereError, OSError, ValueError, PlacetError) as error:
        fail(f"cannot be checked: {error}", 2)
