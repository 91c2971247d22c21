"""Proposals: what waits for a person, and deciding on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from placet.client.models import Decided
from placet.client.paging import pages
from placet.client.transport import Transport
from placet.contracts.approvals import StoredEvent
from placet.contracts.proposals import Acknowledgements, DecisionKind, ProposalView


class Proposals:
    """`client.proposals`: what the caller may see as requester or approver."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, status: str | None = None, tool: str | None = None) -> AsyncIterator[ProposalView]:
        return pages(self._transport, "/api/proposals", ProposalView, {"status": status, "tool": tool})

    async def get(self, proposal_id: str) -> ProposalView:
        return ProposalView.model_validate((await self._transport.get(f"/api/proposals/{proposal_id}")).body)

    def events(self, proposal_id: str) -> AsyncIterator[StoredEvent]:
        """Its events as they lie on the append-only stream, oldest first."""
        return pages(self._transport, f"/api/proposals/{proposal_id}/events", StoredEvent, {})

    async def decide(
        self,
        proposal_id: str,
        decision: DecisionKind | str,
        *,
        digest: str,
        args: dict[str, Any] | None = None,
        message: str | None = None,
        acknowledgements: Acknowledgements | None = None,
    ) -> Decided:
        """Decide on exactly what `digest` stands for.

        Raises `NotAllowedError` (not yours to decide), `InvalidError` with `challenge_failed`, and `ConflictError`
        with `already_decided`, `expired` or `conflict` (the digest is not the current one).
        """
        body: dict[str, Any] = {"decision": str(decision), "digest": digest}
        if args is not None:
            body["args"] = args
        if message is not None:
            body["message"] = message
        if acknowledgements is not None:
            body["acknowledgements"] = acknowledgements.model_dump(mode="json")
        answer = await self._transport.post(f"/api/proposals/{proposal_id}/decisions", body)
        return Decided.model_validate(answer.body)


def acknowledge(proposal: ProposalView) -> Acknowledgements | None:
    """The right answer to a proposal's challenge: for programs that have already asked their person."""
    if proposal.challenge is None:
        return None
    return Acknowledgements(
        resources=proposal.challenge.resources,
        blast_radius=True,
        rollback=True,
        retype=str(proposal.arguments[proposal.challenge.retype]),
    )
