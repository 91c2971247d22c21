"""An effect, as its claim on the ledger tells it."""

from __future__ import annotations

from placet.contracts import events as ev
from placet.contracts.envelope import now
from placet.contracts.policy import Spending
from placet.toolkit import ToolContext, ToolSpec
from services.tool_executor.domain import arguments as untrusted
from services.tool_executor.domain.facts import actor_of
from services.tool_executor.handlers.effects import Effect
from services.tool_executor.handlers.identity import Callers


async def claimed_effect(callers: Callers, spec: ToolSpec, claim: ev.Claimed) -> Effect:
    """Enough to look it up or to let go of it; the requester is the one of now.

    Raises `PlacetError(invalid_arguments)` when the tool no longer takes what was claimed.
    """
    requester = await callers.person(claim.tenant, claim.requester)
    context = ToolContext(
        actor=actor_of(requester),
        call_id=claim.call_id,
        request_id=claim.request_id,
        now=now(),
        run_id=claim.run_id,
        idempotency_key=claim.key,
        approvers=claim.approvers,
    )
    return Effect(
        key=claim.key,
        spec=spec,
        context=context,
        args=untrusted.parse(spec, claim.arguments),
        arguments=claim.arguments,
        args_digest=claim.args_digest,
        requester=claim.requester,
        proposal_id=claim.proposal_id,
        spending=Spending(amount=0),  # whatever was reserved under its key is closed with it
    )
