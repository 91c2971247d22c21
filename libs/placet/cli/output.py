"""How commands talk to people and to programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Standard output. Colours only at a terminal; as wide as the content where nobody looks."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(value: object) -> None:
    """One JSON document on one line, so that lists of documents can be read line by line."""
    import orjson

    sys.stdout.write(orjson.dumps(value, default=_as_json).decode() + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # As text: what a person or a document wrote must not be read as markup.
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console().print(table)


def fail(message: str, code: int = 1) -> NoReturn:
    """Say why on standard error and end with `code`."""
    import typer

    typer.echo(message, err=True)
    raise typer.Exit(code)


def _as_json(value: object) -> object:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"not JSON: {type(value).__name__}")
