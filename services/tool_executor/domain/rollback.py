"""The offer to undo an effect that reads back wrong: a call of its own, put before people whatever it is (A9)."""

from __future__ import annotations

from placet.contracts import events as ev
from placet.contracts.digests import derived_id
from placet.contracts.policy import Decision
from placet.contracts.proposals import Origin
from placet.contracts.tools import Route


def rollback_id(tenant: str, key: str) -> str:
    """The proposal's id, from the key of the effect it undoes: however often it is offered, it is one proposal."""
    return derived_id("prop", "rollback", tenant, key)


def origin_of(failed: ev.VerificationFailed, first: Origin | None) -> Origin:
    """The first requester asks for the undo, through the program; no run waits for it.

    `first` is where the effect's own proposal came from. It was entered as a person's call unless it was one already.
    """
    entered = Route(first.route) if first and first.run_id is None else Route.HTTP
    return Origin(
        tenant=failed.tenant,
        requester=failed.requester,
        run_id=None,
        call_id=derived_id("call", "rollback", failed.tenant, failed.key),
        route=entered.value,
        conversation_id=first.conversation_id if first else None,
        intent=f"Undo {failed.tool}: it was executed, but reading it back shows something else.",
        lineage=first.lineage if first else (),
        authors=first.authors if first else (),
        untrusted_documents=first.untrusted_documents if first else (),
        request_id=failed.request_id,
        rollback_of=failed.proposal_id or failed.key,
    )


def put_before_people(decision: Decision) -> Decision:
    """Nothing is undone unasked: where policy asks for nobody's agreement, the requester's is asked for.

    However much the requester has open already, a known-bad state is offered to be undone.
    """
    obligations = decision.obligations.model_copy(update={"open_limit": None})
    if decision.effect == "allow":
        obligations = obligations.model_copy(update=_CONFIRMED)
    return decision.model_copy(update={"effect": "require_approval", "obligations": obligations})


_CONFIRMED = {
    "approver_roles": (),
    "approvals": 1,
    "requester_may_approve": True,
    "exclude_requester": False,
    "exclude_authors": False,
}
