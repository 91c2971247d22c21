"""Places of one requester and tool: never more than there are, and free for the next one once a holder has ended."""

from __future__ import annotations

from typing import Any, cast

import pytest

from placet.contracts.approvals import ProposeAction
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.events import Completed, Proposed
from placet.contracts.policy import Obligations
from placet.contracts.proposals import FinishReason
from placet.messaging.kv import Entry, KeyConflictError, KeyValue
from placet.messaging.rpc import Call
from placet.testkit.builders import NOON, origin, packet
from services.approval.adapters.open_proposals import KvOpenProposals
from services.approval.domain.state import Proposal, Recorded, advance, fold
from services.approval.handlers.ending import Ending
from services.approval.handlers.proposing import Proposing
from services.approval.ports import Found

LIMIT = 3


class Bucket:
    """A bucket with compare-and-set, that counts what is written to it."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.writes = 0

    async def get(self, key: str) -> Entry | None:
        return self.entries.get(key)

    async def create(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        if key in self.entries:
            raise KeyConflictError(key)
        return self._write(key, value)

    async def update(self, key: str, value: bytes, revision: int, *, ttl_s: int | None = None) -> int:
        if key not in self.entries or self.entries[key].revision != revision:
            raise KeyConflictError(key)
        return self._write(key, value)

    async def delete(self, key: str, revision: int | None = None, *, ttl_s: int | None = None) -> None:
        if key not in self.entries or self.entries[key].revision != revision:
            raise KeyConflictError(key)
        del self.entries[key]

    def _write(self, key: str, value: bytes) -> int:
        self.writes += 1
        self.entries[key] = Entry(value, self.writes)
        return self.writes


class Log:
    """What is on the stream, and what one replica remembers of it."""

    def __init__(self, stored: dict[str, Proposal]) -> None:
        self.stored = stored
        self.remembered: dict[str, Proposal] = {}

    async def find(self, tenant: str, proposal_id: str) -> Found:
        state = self.stored.get(proposal_id)
        return Found(state, None, state.last_seq if state else 0)

    async def load(self, tenant: str, proposal_id: str) -> Proposal | None:
        state = self.stored.get(proposal_id)
        if state:
            self.remembered[proposal_id] = state
        return state

    async def recall(self, tenant: str, proposal_id: str) -> Proposal | None:
        return self.remembered.get(proposal_id) or await self.load(tenant, proposal_id)

    async def append(self, tenant: str, proposal_id: str, name: str, event: Proposed, expected: int) -> Any:
        state = fold([Recorded(len(self.stored) + 1, name, NOON, event)])
        assert state is not None
        self.stored[proposal_id] = self.remembered[proposal_id] = state
        return state.last_seq, NOON


class Quiet:
    """Timers and surfacing, that are not what is looked at here."""

    async def arm(self, *_: Any) -> None: ...

    async def surface(self, state: Proposal) -> Proposal:
        return state


class Replica:
    """One process: its own memory, the bucket and the stream shared with the others."""

    def __init__(self, bucket: Bucket, stored: dict[str, Proposal]) -> None:
        self.log = Log(stored)
        desk = KvOpenProposals(cast(KeyValue, bucket))
        self._proposing = Proposing(cast(Any, self.log), Quiet(), desk, cast(Ending, Quiet()), lambda: NOON)

    async def propose(self, proposal_id: str) -> str | ErrorCode:
        obligations = Obligations(approver_roles=("finance_approver",), open_limit=LIMIT)
        command = ProposeAction(
            proposal_id=proposal_id,
            idempotency_key=f"eff-{proposal_id}",
            origin=origin(),
            packet=packet(args_digest=f"sha256:{proposal_id}", obligations=obligations),
        )
        call = cast(Call, type("Call", (), {"tenant": command.origin.tenant}))
        try:
            return (await self._proposing.on_propose(call, command)).proposal.proposal_id
        except PlacetError as error:
            return error.code


class Company:
    def __init__(self) -> None:
        self.bucket = Bucket()
        self.stored: dict[str, Proposal] = {}
        self.one, self.other = (Replica(self.bucket, self.stored) for _ in range(2))

    def end(self, proposal_id: str) -> None:
        """On the stream; no replica has seen it."""
        state = self.stored[proposal_id]
        event = Completed(
            proposal_id=proposal_id,
            finish_reason=FinishReason.REJECTED,
            origin=state.origin,
            tool=state.packet.tool,
            arguments={},
            outcome={},
        )
        self.stored[proposal_id] = advance(state, Recorded(100 + state.last_seq, "completed", NOON, event))

    async def full(self) -> None:
        for number in range(LIMIT):
            assert await self.one.propose(f"prop-{number}") == f"prop-{number}"


@pytest.mark.spec("A1")
async def test_places_with_as_many_open_as_allowed_are_taken_for_every_replica() -> None:
    company = Company()
    await company.full()
    assert await company.one.propose("prop-x") is ErrorCode.LIMIT_REACHED
    assert await company.other.propose("prop-x") is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("A1")
async def test_place_of_an_ended_proposal_is_taken_by_one_more_and_no_two() -> None:
    """Ended where the first replica could not see it: it looks again before it says no."""
    company = Company()
    await company.full()
    company.end("prop-1")
    assert await company.one.propose("prop-x") == "prop-x"
    assert await company.one.propose("prop-y") is ErrorCode.LIMIT_REACHED
    assert await company.other.propose("prop-y") is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("A1")
async def test_place_remembered_as_free_but_taken_by_another_replica_is_not_taken_twice() -> None:
    company = Company()
    await company.full()
    company.end("prop-1")
    await company.one.log.load("acme", "prop-1")
    assert await company.other.propose("prop-x") == "prop-x"
    assert await company.one.propose("prop-y") is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("A1")
async def test_place_given_back_elsewhere_is_claimed_anew_by_the_same_proposal() -> None:
    """What a replica remembers to hold for this very proposal it may no longer hold."""
    company = Company()
    await company.full()
    held = next(key for key, entry in company.bucket.entries.items() if entry.value == b"prop-1" and "slot" in key)
    del company.bucket.entries[held], company.stored["prop-1"]
    company.one.log.remembered.clear()
    assert await company.one.propose("prop-1") == "prop-1"
    assert company.bucket.entries[held].value == b"prop-1"


@pytest.mark.spec("A1")
async def test_one_more_proposal_in_remembered_places_costs_two_writes() -> None:
    company = Company()
    await company.full()
    company.end("prop-1")
    await company.one.log.load("acme", "prop-1")
    before = company.bucket.writes
    assert await company.one.propose("prop-x") == "prop-x"
    assert company.bucket.writes == before + 2
