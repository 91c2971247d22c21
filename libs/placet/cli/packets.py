"""A proposal's packet for people: everything an approver signs, in the order in which it should be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from placet.cli.output import console, print_table

if TYPE_CHECKING:
    from placet.contracts.proposals import ProposalView


def print_packet(proposal: ProposalView) -> None:
    print_table(("proposal", proposal.proposal_id), _facts(proposal), title=proposal.title)
    if proposal.preview:
        changes = ((change.field, change.before, change.after) for change in proposal.preview)
        print_table(("field", "before", "after"), changes, title="What will change")
    if proposal.challenge:
        console().print(f"To approve, acknowledge each resource and retype the value of {proposal.challenge.retype!r}.")


def _facts(proposal: ProposalView) -> Iterator[tuple[str, object]]:
    given = ", ".join(approval.by for approval in proposal.approvals.given) or "nobody yet"
    yield "summary", proposal.summary
    yield "status", proposal.status.value + (f" ({proposal.finish_reason.value})" if proposal.finish_reason else "")
    yield "asked by", f"{proposal.requester}: {proposal.intent}" if proposal.intent else proposal.requester
    yield "tool", proposal.tool
    for name, value in proposal.arguments.items():
        yield f"  {name}", value
    if proposal.resource:
        yield "resource", f"{proposal.resource.type} {proposal.resource.id}, version {proposal.resource.version}"
    yield "risk", proposal.risk.value
    yield "blast radius", "; ".join(proposal.blast_radius)
    yield "rests on", ", ".join(proposal.lineage) or "no documents"
    rollback = proposal.rollback
    rehearsed = " (rehearsed)" if rollback.rehearsed else f" (not rehearsed: {rollback.note})"
    yield "rollback", f"{rollback.tool} {rollback.arguments}{rehearsed}" if rollback.tool else "none"
    yield "approvals", f"{len(proposal.approvals.given)} of {proposal.approvals.needed}: {given}"
    yield "expires", f"{proposal.expires_at:%F %T} UTC"
    yield "policy", proposal.policy_revision
    yield "digest", proposal.digest
    if proposal.outcome is not None:
        yield "outcome", proposal.outcome
