"""Small real stand-ins of the approval service and of memory."""

from __future__ import annotations

import asyncio

from gateway_fakes import Service
from pydantic import BaseModel

from placet.contracts import approvals, runs
from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.proposals import DecisionKind, FinishReason, ProposalStatus, ProposalView
from placet.identity.grants import Grant


class FakeApproval(Service):
    """Proposals that `requester` and `dave` may see; only `deciders` may decide. Publishing takes `work_s`."""

    proposals: dict[str, ProposalView]
    deciders: set[str]
    work_s: float
    publish_end: FinishReason

    async def open(self, *proposals: ProposalView) -> None:
        self.deciders = {"dave", "carol"}
        self._work: set[asyncio.Task[None]] = set()
        self.reset(*proposals)
        await self.start(
            {
                "get-proposal": self.on_get,
                "list-proposals": self.on_list,
                "list-proposal-events": self.on_events,
                "decide": self.on_decide,
                "query-audit": self.on_audit,
            }
        )

    def reset(self, *proposals: ProposalView) -> None:
        """These proposals and no other; work on earlier ones is dropped."""
        for task in self._work:
            task.cancel()
        self.proposals = {one.proposal_id: one for one in proposals}
        self.work_s = 0.15
        self.publish_end = FinishReason.SUCCESS

    def _visible(self, grant: Grant, proposal_id: str) -> ProposalView:
        found = self.proposals.get(proposal_id)
        if found is None or grant.actor not in {found.requester, *self.deciders}:
            raise not_found()
        return found

    async def on_get(self, grant: Grant, command: approvals.GetProposal) -> BaseModel:
        return approvals.ProposalReply(proposal=self._visible(grant, command.proposal_id))

    async def on_list(self, grant: Grant, command: approvals.ListProposals) -> BaseModel:
        found = [one for one in self.proposals.values() if command.tool in (None, one.tool)]
        return approvals.ProposalPage(items=tuple(found), next="more")

    async def on_events(self, grant: Grant, command: approvals.ListProposalEvents) -> BaseModel:
        proposal = self._visible(grant, command.proposal_id)
        event = approvals.StoredEvent(
            seq=1, name="proposed", time=now().isoformat(), data={"by": proposal.requester}, verified=True
        )
        return approvals.ProposalEvents(items=(event,))

    async def on_decide(self, grant: Grant, command: approvals.DecideProposal) -> BaseModel:
        proposal = self._visible(grant, command.proposal_id)
        if grant.actor not in self.deciders:
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "Not yours to decide.")
        if proposal.status is not ProposalStatus.PENDING:
            raise PlacetError(ErrorCode.ALREADY_DECIDED, "Decided already.")
        if command.digest != proposal.digest:
            raise PlacetError(ErrorCode.CONFLICT, "Another digest.")
        if proposal.challenge and command.decision is DecisionKind.APPROVE and not command.acknowledgements:
            raise PlacetError(ErrorCode.CHALLENGE_FAILED, "The challenge is not answered.")
        if command.decision is DecisionKind.REJECT:
            self._set(proposal.proposal_id, ProposalStatus.COMPLETED, FinishReason.REJECTED)
        else:
            self._set(proposal.proposal_id, ProposalStatus.APPROVED, None)
            task = asyncio.create_task(self._carry_out(proposal.proposal_id))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        after = self.proposals[proposal.proposal_id]
        return approvals.DecisionResult(
            proposal_id=after.proposal_id,
            status=after.status,
            finish_reason=after.finish_reason,
            digest=after.digest,
        )

    async def _carry_out(self, proposal_id: str) -> None:
        await asyncio.sleep(self.work_s)
        self._set(proposal_id, ProposalStatus.COMPLETED, self.publish_end)

    def _set(self, proposal_id: str, status: ProposalStatus, reason: FinishReason | None) -> None:
        changed = self.proposals[proposal_id].model_copy(update={"status": status, "finish_reason": reason})
        self.proposals[proposal_id] = changed

    async def on_audit(self, grant: Grant, command: approvals.QueryAudit) -> BaseModel:
        if grant.actor != "auditor":
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "Only an auditor may read the audit trail.")
        return approvals.AuditPage(items=(), next=str(command.after + command.limit))


class FakeMemory(Service):
    summaries: dict[tuple[str, str, str], str]

    async def open(self) -> None:
        self.summaries = {}
        await self.start({"get-summary": self.on_get, "forget-summary": self.on_forget})

    async def on_get(self, grant: Grant, command: runs.SummaryOf) -> BaseModel:
        text = self.summaries.get((grant.tenant, grant.actor, command.conversation_id))
        if text is None:
            raise not_found()
        return runs.Summary(summary=text, updated_at="2026-11-30T12:00:00+00:00")

    async def on_forget(self, grant: Grant, command: runs.SummaryOf) -> BaseModel:
        if self.summaries.pop((grant.tenant, grant.actor, command.conversation_id), None) is None:
            raise not_found()
        return runs.Done()
