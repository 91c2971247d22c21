"""`placet proposals`."""

from __future__ import annotations

from enum import StrEnum
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
    from placet.contracts.proposals import ProposalView

app = typer.Typer(help="What waits for a person, and deciding on it.", no_args_is_help=True)

ProposalArgument = Annotated[str, typer.Argument(metavar="PROPOSAL_ID")]


class StatusName(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    EXECUTING = "executing"
    COMPLETED = "completed"


class DecisionName(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    RESPOND = "respond"


@app.command("list")
def list_proposals(
    status: Annotated[StatusName | None, typer.Option(help="Only these.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only of this tool.")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
    person: AsOption = None,
    tenant: TenantOption = "acme",
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """List what you may see as requester or approver."""
    client = client_of(url, token, person, tenant, Path(state_dir))
    run(_list(client, status.value if status else None, tool, as_json))


@app.command("show")
def show(
    proposal_id: ProposalArgument,
    url: UrlOption = None,
    token: TokenOption = None,
    person: AsOption = None,
    tenant: TenantOption = "acme",
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show a proposal: what would happen, to what, why, and how it would be undone."""
    run(_show(client_of(url, token, person, tenant, Path(state_dir)), proposal_id, as_json))


@app.command("decide")
def decide(
    proposal_id: ProposalArgument,
    decision: Annotated[
        DecisionName | None, typer.Argument(help="What you decide; asked for when it is left out.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="For reject and respond.")] = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="For edit: the new arguments.")] = None,
    acknowledge: Annotated[
        list[str] | None,
        typer.Option(
            "--acknowledge", metavar="RESOURCE", help="Without asking: a touched resource (repeat per resource)."
        ),
    ] = None,
    retype: Annotated[str | None, typer.Option("--retype", help="Without asking: the value to retype.")] = None,
    digest: Annotated[
        str | None, typer.Option("--digest", help="Decide only if the proposal still has this digest.")
    ] = None,
    url: UrlOption = None,
    token: TokenOption = None,
    person: AsOption = None,
    tenant: TenantOption = "acme",
    state_dir: StateDirOption = DEFAULT_STATE_DIR,
    as_json: JsonOption = False,
) -> None:
    """Decide on a proposal, after it has been shown to you.

    Where policy asks for a challenge, you are asked to acknowledge every touched resource, the blast radius and the
    rollback plan, and to retype a value; --acknowledge and --retype answer it without a terminal.
    """
    from placet.cli.deciding import Wish, settle

    wish = Wish(decision.value if decision else None, message, args, tuple(acknowledge or ()), retype, digest)
    client = client_of(url, token, person, tenant, Path(state_dir))
    run(settle(client, proposal_id, wish, as_json=as_json))


async def _list(client: PlacetClient, status: str | None, tool: str | None, as_json: bool) -> None:
    from placet.cli.output import print_json, print_table

    found: list[ProposalView] = []
    async with client:
        async for proposal in client.proposals.list(status=status, tool=tool):
            if as_json:
                print_json(proposal)
            else:
                found.append(proposal)
    if not as_json:
        print_table(
            ("proposal", "status", "tool", "risk", "requester", "summary", "expires"),
            (
                (p.proposal_id, _state(p), p.tool, p.risk.value, p.requester, p.summary, f"{p.expires_at:%F %T} UTC")
                for p in found
            ),
        )


async def _show(client: PlacetClient, proposal_id: str, as_json: bool) -> None:
    from placet.cli.output import print_json
    from placet.cli.packets import print_packet

    async with client:
        proposal = await client.proposals.get(proposal_id)
    if as_json:
        print_json(proposal)
    else:
        print_packet(proposal)


def _state(proposal: ProposalView) -> str:
    reason = f" ({proposal.finish_reason.value})" if proposal.finish_reason else ""
    return proposal.status.value + reason
