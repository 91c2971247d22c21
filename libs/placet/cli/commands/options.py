"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.state_dir import DEFAULT

if TYPE_CHECKING:
    from placet.client import PlacetClient


class EngineName(StrEnum):
    AUTO = "auto"
    OPA = "opa"
    EMBEDDED = "embedded"


StateDirOption = Annotated[
    Path,
    typer.Option(
        "--state-dir", metavar="DIR", envvar="PLACET_STATE_DIR", help="Keys, data and logs; kept over restarts."
    ),
]
EngineOption = Annotated[
    EngineName,
    typer.Option(
        "--policy-engine",
        help="auto: an opa on the PATH or under .placet/bin, else the embedded engine.",
        show_default=True,
    ),
]
UrlOption = Annotated[str | None, typer.Option("--url", metavar="URL", envvar="PLACET_URL", help="The gateway.")]
TokenOption = Annotated[
    str | None, typer.Option("--token", metavar="JWT", envvar="PLACET_TOKEN", help="Who you are: a bearer token.")
]
AsOption = Annotated[
    str | None, typer.Option("--as", metavar="USER", help="Instead of --token: a person of the local state directory.")
]
TenantOption = Annotated[str, typer.Option("--tenant", help="The person's tenant, with --as.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document per line, for programs.")]

DEFAULT_STATE_DIR = DEFAULT


def client_of(url: str | None, token: str | None, person: str | None, tenant: str, state_dir: Path) -> PlacetClient:
    """Who calls where: said outright, or from the state directory of the local `placet up`."""
    import json

    from placet.cli import material
    from placet.cli.output import fail
    from placet.cli.state_dir import StateDir
    from placet.client import PlacetClient

    state = StateDir.at(state_dir)
    if url is None:
        try:
            url = f"http://127.0.0.1:{json.loads(state.ports.read_text(encoding='utf-8'))['gateway']}"
        except (FileNotFoundError, KeyError):
            fail("where is the gateway? Give --url, or --state-dir of a local `placet up`", 2)
    if token is None:
        if person is None:
            fail("who are you? Give --token, or --as USER beside a local `placet up`", 2)
        try:
            token = material.tokens(state.keys, {person: (tenant, person)})[person]
        except FileNotFoundError:
            fail(f"no issuer key in {state.keys}: --as works beside a local `placet up` only", 2)
    return PlacetClient(url, token)
