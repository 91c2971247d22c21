"""`placet docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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

app = typer.Typer(help="Documents: bring a directory in, rebuild what is searched.", no_args_is_help=True)


@app.command("import")
def import_directory(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Searched with all below it.")
    ],
    base: Annotated[str, typer.Option("--kb", metavar="KB", help="The knowledge base they go to.")],
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish each one too, if policy lets you confirm.")
    ] = False,
    url: UrlOption = None,
    token: TokenOption = None,
    person: AsOption = None,
    tenant: TenantOption = "acme",
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Upload Markdown, text, HTML, PDF and DOCX files as drafts, and wait until they have been read.

    May be stopped and started again: a file that is there already, byte for byte, is skipped; one that has changed
    becomes the next version of its document. A document's title is the file's path below DIR, without its ending.
    Exit code 1 when a file was refused or could not be read.
    """
    from placet.cli.importing import Import

    client = client_of(url, token, person, tenant, Path(state_dir))
    failed = run(Import(client, directory, base, publish=publish, as_json=as_json).run())
    if failed:
        raise typer.Exit(1)


@app.command("reindex")
def reindex(
    url: UrlOption = None,
    token: TokenOption = None,
    person: AsOption = None,
    tenant: TenantOption = "acme",
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the index of every document from its original, while searches go on.

    Each document is rebuilt beside what is searched, and switched at once. Started again while a rebuilding runs, it
    follows that one. Exit code 1 when a document could not be read again; it stays as it was.
    """
    from placet.cli.reindexing import follow

    client = client_of(url, token, person, tenant, Path(state_dir))
    failed = run(follow(client, as_json=as_json))
    if failed:
        raise typer.Exit(1)
