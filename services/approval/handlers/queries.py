"""Reading proposals and the audit trail. What one may not see and what does not exist look the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from placet.contracts.approvals import (
    AuditPage,
    GetProposal,
    ListProposalEvents,
    ListProposals,
    ProposalEvents,
    ProposalPage,
    ProposalReply,
    QueryAudit,
    StoredEvent,
)
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.policy import Subject
from placet.contracts.proposals import ProposalStatus, ProposalView
from placet.identity.grants import GrantVerifier, Purpose
from placet.messaging.rpc import Call
from services.approval.domain import decide as rules
from services.approval.domain.commands import Decider, Moment, View
from services.approval.domain.state import Proposal
from services.approval.errors import Refusal
from services.approval.handlers.eligibility import Judge
from services.approval.handlers.ending import Ending
from services.approval.ports import Clock, EffectLedger, ProposalIndex, ProposalLog, ProposalQuery, StaleError

_RACES = 5


class AuditReader(Protocol):
    async def page(self, tenant: str, query: QueryAudit) -> AuditPage: ...


@dataclass(frozen=True, slots=True)
class Queries:
    log: ProposalLog
    ledger: EffectLedger
    index: ProposalIndex
    judge: Judge
    grants: GrantVerifier
    audit: AuditReader
    ending: Ending
    clock: Clock

    async def on_get(self, call: Call, command: GetProposal) -> ProposalReply:
        state = await self._visible(call, command.grant, command.proposal_id)
        state = await self._seen(call, command, state)
        return ProposalReply(proposal=await self._as_it_runs(call.tenant, state.view()))

    async def _as_it_runs(self, tenant: str, view: ProposalView) -> ProposalView:
        """`executing` is known by the ledger alone; few proposals are between decision and end at any moment."""
        if view.status is not ProposalStatus.APPROVED:
            return view
        claimed = await self.ledger.claimed(tenant, view.idempotency_key)
        return view.model_copy(update={"status": ProposalStatus.EXECUTING}) if claimed else view

    async def _seen(self, call: Call, command: GetProposal, state: Proposal) -> Proposal:
        """Keep that one who may decide has opened it. Others append at the same time: then it is tried again."""
        reader = self.grants.verify(command.grant, call.tenant, purpose=Purpose.REQUEST).actor
        for _ in range(_RACES):
            if not rules.unseen_by(state, reader):
                break
            person = await self.judge.person(call.tenant, reader)
            decider = Decider(person.id, person.roles, await self.judge.eligibility(person, "approve", state))
            events = rules.decide(state, View(decider), Moment(self.clock()))
            if isinstance(events, Refusal) or not events:
                break
            try:
                return await self.ending.append_all(state, events)
            except StaleError:
                state = await self.log.load(call.tenant, state.id) or state
        return state

    async def on_list(self, call: Call, command: ListProposals) -> ProposalPage:
        """A page of what the caller may see, by the requester's id and the roles that may decide."""
        grant = self.grants.verify(command.grant, call.tenant, purpose=Purpose.REQUEST)
        person = await self.judge.person(grant.tenant, grant.actor)
        if not person.active:
            return ProposalPage(items=())
        running = command.status in (ProposalStatus.APPROVED, ProposalStatus.EXECUTING)
        query = ProposalQuery(
            tenant=grant.tenant,
            viewer=person.id,
            viewer_roles=person.roles,
            status=ProposalStatus.APPROVED if running else command.status,
            tool=command.tool,
            limit=command.limit,
            cursor=command.cursor,
        )
        rows = await self.index.page(query)
        next_ = rows[-1].cursor if len(rows) == command.limit else None
        views = await asyncio.gather(*(self._as_it_runs(grant.tenant, row.view) for row in rows))
        return ProposalPage(
            items=tuple(view for view in views if not running or view.status is command.status), next=next_
        )

    async def on_events(self, call: Call, command: ListProposalEvents) -> ProposalEvents:
        state = await self._visible(call, command.grant, command.proposal_id)
        history = await self.log.history(call.tenant, state.id)
        items = tuple(
            StoredEvent(
                seq=item.seq, name=item.name, time=item.time.isoformat(), data=item.data, verified=item.verified
            )
            for item in history
        )
        return ProposalEvents(items=items)

    async def on_query_audit(self, call: Call, command: QueryAudit) -> AuditPage:
        grant = self.grants.verify(command.grant, call.tenant, purpose=Purpose.REQUEST)
        person = await self.judge.person(grant.tenant, grant.actor)
        answer = await self.judge.policy.admin(Subject.of(person), "audit.read")
        if answer.code is ErrorCode.POLICY_UNAVAILABLE:
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no answer.")
        if not answer.allowed:
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "Only an auditor may read the audit trail.")
        return await self.audit.page(call.tenant, command)

    async def _visible(self, call: Call, grant_token: str, proposal_id: str) -> Proposal:
        grant = self.grants.verify(grant_token, call.tenant, purpose=Purpose.REQUEST)
        person = await self.judge.person(grant.tenant, grant.actor)
        state = await self.log.load(call.tenant, proposal_id)
        answer = await self.judge.eligibility(person, "view", state)
        if state is None or not answer.visible:
            raise not_found()
        return state
