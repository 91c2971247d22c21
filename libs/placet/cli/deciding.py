"""`placet proposals decide`: show the packet, put the challenge to the person, send the decision."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from placet.cli.output import fail, print_json
from placet.cli.packets import print_packet
from placet.contracts.proposals import Acknowledgements, DecisionKind

if TYPE_CHECKING:
    from placet.client import PlacetClient
    from placet.contracts.proposals import Challenge, ProposalView


@dataclass(frozen=True, slots=True)
class Wish:
    """What was said on the command line. `args` is JSON text; `acknowledge` and `retype` answer a challenge.

    Without a `decision` the person is asked for one, once the packet has been shown.
    """

    decision: str | None
    message: str | None = None
    args: str | None = None
    acknowledge: tuple[str, ...] = ()
    retype: str | None = None
    digest: str | None = None


async def settle(client: PlacetClient, proposal_id: str, wish: Wish, *, as_json: bool) -> None:
    """Decide on the packet that was shown: its digest goes with the decision. Raises `ApiError`."""
    arguments = _arguments(wish.args)
    if wish.decision is None and (as_json or not sys.stdin.isatty()):
        fail(f"say what you decide: {', '.join(DecisionKind)}", 2)
    async with client:
        proposal = await client.proposals.get(proposal_id)
        if wish.digest is not None and wish.digest != proposal.digest:
            fail(f"the proposal has changed: its digest is now {proposal.digest}")
        if not as_json:
            print_packet(proposal)
        decision = wish.decision or _ask_decision()
        decided = await client.proposals.decide(
            proposal_id,
            decision,
            digest=proposal.digest,
            args=arguments,
            message=wish.message,
            acknowledgements=_acknowledgements(proposal, decision, wish),
        )
    if as_json:
        print_json(decided)
    else:
        reason = f" ({decided.finish_reason.value})" if decided.finish_reason else ""
        typer.echo(f"{decision}: {proposal_id} is {decided.status.value}{reason}")


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        arguments = json.loads(text)
    except ValueError as error:
        fail(f"--args is not JSON: {error}", 2)
    if not isinstance(arguments, dict):
        fail("--args must be a JSON object", 2)
    return arguments


def _ask_decision() -> str:
    """Never a default: whoever just presses return has decided nothing."""
    said = str(typer.prompt(f"What do you decide ({', '.join(DecisionKind)})?")).strip()
    if said not in [*DecisionKind]:
        fail(f"not a decision: {said}", 2)
    return said


def _acknowledgements(proposal: ProposalView, decision: str, wish: Wish) -> Acknowledgements | None:
    if proposal.challenge is None or decision not in ("approve", "edit"):
        return None
    if wish.retype is not None or wish.acknowledge:
        # Said on the command line, and sent as it was said: the server judges whether it is right.
        agreed = bool(wish.acknowledge)
        return Acknowledgements(
            resources=wish.acknowledge, blast_radius=agreed, rollback=agreed, retype=wish.retype or ""
        )
    if not sys.stdin.isatty():
        fail("this proposal asks for a challenge: answer it at a terminal, or with --acknowledge and --retype", 2)
    return _ask(proposal.challenge)


def _ask(challenge: Challenge) -> Acknowledgements:
    """Never prefilled: typing the value is the point."""
    resources = tuple(
        resource for resource in challenge.resources if typer.confirm(f"Do you acknowledge that {resource} is touched?")
    )
    return Acknowledgements(
        resources=resources,
        blast_radius=typer.confirm("Have you read the blast radius?"),
        rollback=typer.confirm("Have you read the rollback plan?"),
        retype=typer.prompt(f"Retype {challenge.retype}"),
    )
