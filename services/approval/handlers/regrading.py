"""Looking at open proposals again when policy or a person's rights have changed (B3).

Which ones: those that a changed person asked for or has approved, and after a policy change all that were judged by
another revision. They are found by the listing; one that reached it late, because a replica died with it in hand, is
looked at when it gets there. Several replicas may look at one at the same time: each change is written to a proposal
once, by compare-and-set. Killed in between: a directory change is delivered again; policies are compared at every
start. What slips through is caught at the latest when it is committed, where everything is authorized anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import ActionPacket
from placet.messaging.work_queue import RetryLater, Signal
from placet.observability.context import RequestContext, bound, new_id
from services.approval.domain import decide as rules
from services.approval.domain.commands import Moment, Regrade
from services.approval.domain.state import Proposal
from services.approval.errors import Refusal
from services.approval.handlers.eligibility import Judge
from services.approval.handlers.ending import Ending
from services.approval.ports import Assessor, Clock, Place, ProposalIndex, ProposalLog, StaleError

_PAGE = 100
_AT_ONCE = 8
_RACES = 8
# A proposal that was judged just before the change may reach the listing just after it.
_SECOND_LOOK_S = 2.0
# One that gets there later than that, with a second for judging it and for storing it, both looks may have missed.
_LATE = timedelta(seconds=_SECOND_LOOK_S / 2)
# The executor takes up a new policy by itself; it is given this long, look by look.
_BEHIND_S = 0.2
_MOST_LOOKS = 25


class _BehindError(Exception):
    """The executor still judges by another policy than the one in force here."""


@dataclass(slots=True)
class Regrading:
    """`revision` is that of the policy in force, once it is known."""

    log: ProposalLog
    index: ProposalIndex
    judge: Judge
    assessor: Assessor
    ending: Ending
    clock: Clock
    revision: str | None = None
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def on_directory_change(self, signal: Signal) -> None:
        """The entry of a person was written: `$KV.DIRECTORY.<tenant>.<person>`."""
        tenant, person = signal.subject.split(".")[2:4]
        trigger = f"directory:{person}@{signal.seq}"
        await self._each(lambda after: self.index.pending_of(tenant, person, after, _PAGE), trigger)
        if signal.attempt == 1:
            raise RetryLater(_SECOND_LOOK_S)

    async def on_policy(self, revision: str) -> None:
        """Another policy is in force here. Raises `PlacetError` to be told again."""
        self.revision = revision
        await self._each(lambda after: self.index.pending_under_other(revision, after, _PAGE), None)

    async def on_proposed(self, state: Proposal) -> None:
        """A proposal that was judged just before the policy changed and stored just after."""
        if self.revision and state.open and state.packet.policy_revision != self.revision:
            await self.look(state.origin.tenant, state.id, None)

    async def on_listed(self, state: Proposal, seq: int, judged_at: datetime) -> None:
        """The listing shows it only now, with what was stored at `seq`: who looked there meanwhile did not see it."""
        if state.open and self.clock() - judged_at > _LATE:
            await self.look(state.origin.tenant, state.id, f"listed:{seq}", only_changes=True)

    async def _each(self, page: Callable[[Place], Awaitable[list[Place]]], trigger: str | None) -> None:
        """Page by page to the last, so that one that cannot be looked at now keeps no other from it; then raises."""
        failure: BaseException | None = None
        async for places in _pages(page):
            ends = await asyncio.gather(*(self._bounded(place, trigger) for place in places), return_exceptions=True)
            failure = failure or next((end for end in ends if isinstance(end, BaseException)), None)
        if failure:
            raise failure

    async def _bounded(self, place: Place, trigger: str | None) -> None:
        async with self._slots:
            with bound(RequestContext(new_id("req"), place.tenant)):
                await self.look(place.tenant, place.proposal_id, trigger)

    async def look(self, tenant: str, proposal_id: str, trigger: str | None, *, only_changes: bool = False) -> None:
        """Look at one proposal again and write down what came of it. `trigger` None: because of the policy in force.

        With `only_changes`, nothing is written when all is as it was. Raises `PlacetError` when something that is
        needed for it is away: then nothing was written.
        """
        races = behind = 0
        while races < _RACES:
            state = await self.log.load(tenant, proposal_id)
            if state is None or not state.open or self._seen(state, trigger):
                return
            try:
                command = replace(await self._command(state, trigger), only_changes=only_changes)
                outcome = rules.decide(state, command, Moment(self.clock()))
                if not isinstance(outcome, Refusal):
                    await self.ending.append_all(state, outcome)
                return
            except StaleError:
                races += 1
            except _BehindError as error:
                behind += 1
                if behind > _MOST_LOOKS:
                    raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "The executor keeps another policy.") from error
                await asyncio.sleep(_BEHIND_S)
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "Too many people are deciding at once.")

    def _seen(self, state: Proposal, trigger: str | None) -> bool:
        return state.packet.policy_revision == self.revision if trigger is None else trigger in state.triggers

    async def _command(self, state: Proposal, trigger: str | None) -> Regrade:
        packet: ActionPacket | None = None
        refused = None
        try:
            packet = await self.assessor.assess(state.origin, state.packet.tool, state.packet.arguments)
        except PlacetError as error:
            if error.retryable:
                raise
            refused = await self._refusal(state, error)
        if packet and trigger is None and packet.policy_revision != self.revision:
            raise _BehindError
        return Regrade(trigger or f"policy:{self.revision}", packet, refused, await self._still_eligible(state))

    async def _refusal(self, state: Proposal, error: PlacetError) -> tuple[ErrorCode, str]:
        """Nothing is there for one who was dismissed; for anybody else, the world has moved."""
        if error.code is ErrorCode.NOT_FOUND:
            requester = await self.judge.person(state.origin.tenant, state.origin.requester)
            if not requester.active:
                return ErrorCode.PERMISSION_DENIED, "The requester may no longer do this."
        return error.code, error.message

    async def _still_eligible(self, state: Proposal) -> frozenset[str]:
        """Those who approved and still may, by the rights of now."""
        kept = []
        for who in state.approver_ids:
            person = await self.judge.person(state.origin.tenant, who)
            if (await self.judge.still_counts(person, state)).allowed:
                kept.append(who)
        return frozenset(kept)


async def _pages(page: Callable[[Place], Awaitable[list[Place]]]) -> AsyncIterator[list[Place]]:
    after = Place()
    while places := await page(after):
        yield places
        after = places[-1]
