"""Making proposals: each one durable before it is shown, the same action open only once, and not too many at a time.

What is open is known by keys on the bus. A key is claimed before the proposal is stored and given back when it has
ended (`reactions.on_decided`). Killed in between: the key names a proposal that does not exist, which the next caller
finds out; a key that nobody asks for ends by itself, soon after its proposal would have expired.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from placet.contracts import events as ev
from placet.contracts.approvals import ProposalReply, ProposeAction
from placet.contracts.digests import derived_id
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Caller, Hold
from placet.messaging.rpc import Call
from services.approval.domain.state import Proposal, Recorded, advance
from services.approval.handlers.ending import Ending, key_lifetime_s
from services.approval.ports import Claim, Clock, ExpiryTimers, Found, OpenProposals, ProposalLog, StaleError

_RACES = 40
_PAUSE_S = 0.05
# A holder whose proposal is not there yet is given this many looks before it counts as dead.
_PATIENCE = 30
_MOST_CALLERS = 100


@dataclass(frozen=True, slots=True)
class Proposing:
    log: ProposalLog
    timers: ExpiryTimers
    desk: OpenProposals
    ending: Ending
    clock: Clock

    async def on_propose(self, call: Call, command: ProposeAction) -> ProposalReply:
        """Make a proposal durable and surface it. Asking again, under whatever id, for what is open changes nothing.

        Killed in between: the timer is armed first (a timer without a proposal does nothing), and a `proposed`
        without its `waiting-for-human` is surfaced by the reaction to `proposed`.

        Raises `PlacetError(limit_reached)` when this requester has too many of this tool's proposals open.
        """
        if command.origin.tenant != call.tenant:
            raise PlacetError(ErrorCode.INVALID_REQUEST, "The origin's tenant is not the subject's.")
        found = Found()  # most calls are new: the append finds out about the others
        for attempt in range(_RACES):
            try:
                state = await self._admit(command, found, attempt)
                return ProposalReply(proposal=(await self.ending.surface(state)).view())
            except StaleError:
                await asyncio.sleep(_PAUSE_S * min(attempt, 1))
            found = await self.log.find(call.tenant, command.proposal_id)
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "Too many calls ask for the same at once.")

    async def _admit(self, command: ProposeAction, found: Found, attempt: int) -> Proposal:
        """The proposal that answers this call. Raises `StaleError` to be asked again."""
        tenant = command.origin.tenant
        if found.state:
            if found.state.origin.requester != command.origin.requester:
                raise PlacetError(ErrorCode.CONFLICT, "This proposal id belongs to another call.")
            return found.state
        if found.merged_into:
            joined = await self.log.load(tenant, found.merged_into)
            if joined and joined.answers(command.proposal_id):
                return joined
        key, ttl_s = _key_of(command), _lifetime(command)
        claim: Claim | None = await self.desk.claim(key, command.proposal_id, ttl_s)
        if claim and claim.holder != command.proposal_id:
            same = await self._same(command, found, claim.holder, attempt)
            if same:
                return same
            claim = await self.desk.take_over(key, command.proposal_id, ttl_s, claim.revision)
        if claim is None:
            raise StaleError(command.proposal_id)
        return await self._store(command, found, Hold(key=key, revision=claim.revision))

    async def _same(self, command: ProposeAction, found: Found, holder: str, attempt: int) -> Proposal | None:
        """The open proposal of `holder`, joined, if it is for the very same; None when its key may be taken over."""
        tenant = command.origin.tenant
        other = await self.log.find(tenant, holder)
        state = other.state
        if state is None:
            if other.last_seq == 0 and attempt < _PATIENCE:
                raise StaleError(holder)
            # Its maker is dead or slow. Should it wake up, it finds this where its own first event would go.
            fence = ev.Merged(proposal_id=holder, into=command.proposal_id)
            await self.log.append(tenant, holder, "merged", fence, other.last_seq)
            return None
        if not state.open or state.packet.digest != command.packet.digest:
            return None
        if len(state.joined) >= _MOST_CALLERS:
            raise PlacetError(ErrorCode.LIMIT_REACHED, "This has been asked for too often; it waits for a decision.")
        return await self._join(command, found, state)

    async def _join(self, command: ProposeAction, found: Found, state: Proposal) -> Proposal:
        """This call first, then the proposal: the second append says that the first one counts."""
        tenant, origin = command.origin.tenant, command.origin
        if found.merged_into != state.id:
            merged = ev.Merged(proposal_id=command.proposal_id, into=state.id)
            await self.log.append(tenant, command.proposal_id, "merged", merged, found.last_seq)
        caller = Caller(
            proposal_id=command.proposal_id, run_id=origin.run_id, call_id=origin.call_id, request_id=origin.request_id
        )
        event = ev.Joined(proposal_id=state.id, caller=caller)
        seq, time = await self.log.append(tenant, state.id, "joined", event, state.last_seq)
        return advance(state, Recorded(seq, "joined", time, event))

    async def _store(self, command: ProposeAction, found: Found, same: Hold) -> Proposal:
        tenant, limit = command.origin.tenant, command.packet.obligations.open_limit
        holds: tuple[Hold, ...] = (same,)
        if limit is not None:
            slot = await self.desk.take_slot(_group_of(command), limit, command.proposal_id, _lifetime(command))
            if slot is None:
                await self.desk.release(holds, _lifetime(command))
                raise PlacetError(
                    ErrorCode.LIMIT_REACHED, "Too many proposals of this kind are waiting already.", limit=limit
                )
            holds = (same, slot)
        expires_at = self.clock() + timedelta(seconds=command.packet.obligations.ttl_s)
        await self.timers.arm(tenant, command.proposal_id, expires_at)
        event = ev.Proposed(
            proposal_id=command.proposal_id,
            idempotency_key=command.idempotency_key,
            origin=command.origin,
            packet=command.packet,
            expires_at=expires_at,
            holds=holds,
        )
        try:
            await self.log.append(tenant, command.proposal_id, "proposed", event, found.last_seq)
        except StaleError:
            if (await self.log.find(tenant, command.proposal_id)).state is None:
                await self.desk.release(holds, _lifetime(command))
            raise
        state = await self.log.recall(tenant, command.proposal_id)
        if state is None:
            raise StaleError(command.proposal_id)
        return state


def _lifetime(command: ProposeAction) -> int:
    return key_lifetime_s(timedelta(seconds=command.packet.obligations.ttl_s))


def _key_of(command: ProposeAction) -> str:
    """One action of one requester: tool, target and canonical arguments. The undo of one effect is not another's."""
    packet, origin = command.packet, command.origin
    target = f"{packet.resource.type}/{packet.resource.id}" if packet.resource else ""
    parts = (
        origin.requester,
        packet.tool,
        target,
        packet.args_digest,
        *([origin.rollback_of] if origin.rollback_of else []),
    )
    return f"{origin.tenant}.{derived_id('same', *parts)}"


def _group_of(command: ProposeAction) -> str:
    return f"{command.origin.tenant}.{derived_id('slot', command.origin.requester, command.packet.tool)}"
