"""Making proposals: each one durable before it is shown, the same action open only once, and not too many at a time.

What is open is known by keys on the bus. A key is claimed before the proposal is stored, and whoever wants it when that
one has ended takes it over. Killed in between: the key of an action names a proposal that does not exist, which the
next caller finds out; a key that nobody asks for ends by itself, soon after its proposal would have expired.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from placet.contracts import events as ev
from placet.contracts.approvals import ProposalReply, ProposeAction
from placet.contracts.digests import derived_id
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Caller
from placet.messaging.rpc import Call
from services.approval.domain.state import Proposal, Recorded, advance
from services.approval.handlers.ending import Ending
from services.approval.ports import Claim, Clock, ExpiryTimers, Found, OpenProposals, ProposalLog, StaleError

_RACES = 40
_PAUSE_S = 0.05
# A holder whose proposal is not there yet is given this many looks before it counts as dead.
_PATIENCE = 30
_MOST_CALLERS = 100
_KEY_OUTLIVES_S = 60


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
        return await self._store(command, found, _Held(key, claim.revision))

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

    async def _store(self, command: ProposeAction, found: Found, same: _Held) -> Proposal:
        tenant, limit = command.origin.tenant, command.packet.obligations.open_limit
        held = [same]
        if limit is not None:
            place = await self._take_place(command, limit)
            if place is None:
                await self._give_back(held, command)
                raise PlacetError(
                    ErrorCode.LIMIT_REACHED, "Too many proposals of this kind are waiting already.", limit=limit
                )
            held.append(place)
        expires_at = self.clock() + timedelta(seconds=command.packet.obligations.ttl_s)
        await self.timers.arm(tenant, command.proposal_id, expires_at)
        event = ev.Proposed(
            proposal_id=command.proposal_id,
            idempotency_key=command.idempotency_key,
            origin=command.origin,
            packet=command.packet,
            expires_at=expires_at,
        )
        try:
            await self.log.append(tenant, command.proposal_id, "proposed", event, found.last_seq)
        except StaleError:
            if (await self.log.find(tenant, command.proposal_id)).state is None:
                await self._give_back(held, command)
            raise
        state = await self.log.recall(tenant, command.proposal_id)
        if state is None:
            raise StaleError(command.proposal_id)
        return state

    async def _take_place(self, command: ProposeAction, limit: int) -> _Held | None:
        """One of the `limit` places of this requester and tool; None when each is held by one that has not ended.

        By what is remembered first; that all are taken is only said by what is there now.
        """
        for glance in (True, False):
            for key in _places(command, limit):
                held = await self._try_place(key, command, glance=glance)
                if held:
                    return held
        return None

    async def _try_place(self, key: str, command: ProposeAction, *, glance: bool) -> _Held | None:
        proposal_id, ttl_s = command.proposal_id, _lifetime(command)
        claim: Claim | None = await self.desk.claim(key, proposal_id, ttl_s, glance=glance)
        if claim and claim.holder != proposal_id:
            look = self.log.recall if glance else self.log.load
            state = await look(command.origin.tenant, claim.holder)
            # One that is not stored yet may still be; if its maker is dead, its place ends by itself.
            ended = state is not None and state.finish_reason is not None
            claim = await self.desk.take_over(key, proposal_id, ttl_s, claim.revision) if ended else None
        return _Held(key, claim.revision) if claim else None

    async def _give_back(self, held: list[_Held], command: ProposeAction) -> None:
        for one in held:
            await self.desk.release(one.key, one.revision, _lifetime(command))


@dataclass(frozen=True, slots=True)
class _Held:
    """A key that this call has taken, and the revision under which it did."""

    key: str
    revision: int


def _lifetime(command: ProposeAction) -> int:
    """How long the keys of a proposal are held at most, in seconds."""
    return command.packet.obligations.ttl_s + _KEY_OUTLIVES_S


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


def _places(command: ProposeAction, limit: int) -> Iterator[str]:
    """Begins at a place that the id tells, so that the same proposal finds its own again."""
    group = f"{command.origin.tenant}.{derived_id('slot', command.origin.requester, command.packet.tool)}"
    first = zlib.crc32(command.proposal_id.encode())
    return (f"{group}.{(first + step) % limit}" for step in range(limit))
