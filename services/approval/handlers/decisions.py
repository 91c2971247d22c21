"""Decide and withdraw: every one an append by compare-and-set, so that of many deciders one wins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from placet.audit.trail import AuditTrail
from placet.contracts.approvals import DecideProposal, DecisionResult, WithdrawProposal
from placet.contracts.digests import idempotency_key
from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.proposals import DecisionKind
from placet.identity.grants import Grant, GrantVerifier, Purpose
from placet.messaging.rpc import Call
from services.approval.domain import decide as rules
from services.approval.domain.commands import Approve, Command, Decider, Edit, Moment, Reject, Repeat, Respond, Withdraw
from services.approval.domain.state import Proposal
from services.approval.errors import Refusal
from services.approval.handlers.eligibility import Judge
from services.approval.handlers.ending import Ending
from services.approval.ports import Assessor, Clock, ProposalLog, StaleError

_RACES = 8


@dataclass(frozen=True, slots=True)
class Decisions:
    log: ProposalLog
    judge: Judge
    assessor: Assessor
    grants: GrantVerifier
    audit: AuditTrail
    ending: Ending
    clock: Clock

    async def on_decide(self, call: Call, command: DecideProposal) -> DecisionResult:
        grant = self.grants.verify(command.grant, call.tenant, purpose=Purpose.REQUEST)
        person = await self.judge.person(grant.tenant, grant.actor)
        try:
            state = await self._race(grant, command.proposal_id, lambda state: self._command(command, person, state))
        except PlacetError as error:
            await self._record_refusal(grant, person, command, error.code)
            raise
        return _result(state)

    async def on_withdraw(self, call: Call, command: WithdrawProposal) -> DecisionResult:
        grant = self.grants.verify(command.grant, call.tenant, purpose=Purpose.RUN)

        async def withdraw(state: Proposal | None) -> Command:
            if state is None or not state.asked_by(grant.run_id):
                raise not_found()
            others = command.leave and await self.ending.interest.anyone(state, besides=grant.run_id)
            return Withdraw(grant.actor, others_wait=others)

        return _result(await self._race(grant, command.proposal_id, withdraw))

    async def _race(
        self, grant: Grant, proposal_id: str, make: Callable[[Proposal | None], Awaitable[Command]]
    ) -> Proposal:
        """Load, decide, append; lost races are decided again on what is there now."""
        for attempt in range(_RACES):
            # The remembered state first; a refusal is only given by the state of now.
            look = self.log.load if attempt else self.log.recall
            state = await look(grant.tenant, proposal_id)
            if state and not state.surfaced:  # who stored it died: it is shown before it is decided on
                state = await self.ending.surface(state)
            try:
                return await self._decided(state, await make(state))
            except StaleError:
                continue
            except PlacetError as error:
                if attempt or error.retryable:
                    raise
        raise PlacetError(ErrorCode.CONFLICT, "Too many people are deciding at once; read the proposal again.")

    async def _decided(self, state: Proposal | None, command: Command) -> Proposal:
        if state is None:
            raise not_found()
        outcome = rules.decide(state, command, Moment(self.clock()))
        if isinstance(outcome, Refusal):
            raise outcome.as_error()
        return await self.ending.append_all(state, outcome)

    async def _command(self, command: DecideProposal, person: Person, state: Proposal | None) -> Command:
        eligibility = await self.judge.eligibility(person, command.decision.value, state)
        decider = Decider(person.id, person.roles, eligibility, command.decision_id)
        if state is None:
            raise not_found()
        if command.decision_id in state.decisions:
            return Repeat(decider)
        match command.decision:
            case DecisionKind.APPROVE:
                return Approve(decider, command.digest, command.acknowledgements)
            case DecisionKind.REJECT:
                return Reject(decider, command.message)
            case DecisionKind.RESPOND:
                return Respond(decider, command.message)
            case DecisionKind.EDIT:
                return await self._edit(command, person, decider, state)

    async def _edit(self, command: DecideProposal, person: Person, decider: Decider, state: Proposal) -> Edit:
        refusal = rules.may_decide(state, decider, Moment(self.clock()))
        if refusal:
            raise refusal.as_error()
        if command.args is None:
            raise PlacetError(ErrorCode.INVALID_REQUEST, "An edit needs the new arguments.")
        packet = await self.assessor.assess(state.origin, state.packet.tool, command.args)
        eligibility = await self.judge.eligibility(person, "edit", state, packet)
        key = idempotency_key(
            tenant=state.origin.tenant,
            tool=packet.tool,
            target=packet.resource.id if packet.resource else "",
            args_digest=packet.args_digest,
            occasion=state.id,
        )
        fresh = replace(decider, eligibility=eligibility)
        return Edit(fresh, command.digest, command.acknowledgements, packet, key)

    async def _record_refusal(self, grant: Grant, person: Person, command: DecideProposal, code: ErrorCode) -> None:
        """A decision that was made is recorded by the reaction to its event."""
        await self.audit.record(
            grant.tenant,
            "proposal-decided",
            action=command.decision.value,
            outcome="refused",
            actor=person.id,
            roles=person.roles,
            proposal_id=command.proposal_id,
            code=code.value,
        )


def _result(state: Proposal) -> DecisionResult:
    return DecisionResult(
        proposal_id=state.id,
        status=state.status(),
        finish_reason=state.finish_reason or state.ending,
        digest=state.packet.digest,
    )
