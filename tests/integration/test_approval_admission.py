"""The same action open once, and not too many at a time: on the bus, whichever replica is asked (A1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.directory import PersonChange
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.events import Completed
from placet.contracts.proposals import FinishReason
from placet.contracts.tools import Route
from placet.messaging.directory import KvDirectory
from placet.messaging.kv import KeyValue
from placet.messaging.reading import EventReader
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.approval.adapters.open_proposals import KvOpenProposals
from tests.integration.approval_steps import PATIENCE_S, ask_refund, asked, ended, names, replica
from tests.integration.governance_rig import GovernanceRig

LIMIT = 3  # of `change_order`, in the rig's tables


async def completed(rig: GovernanceRig, proposal_id: str) -> Completed:
    events = await EventReader(rig.approval.bus, "APPROVALS").entity("acme", "approval", proposal_id)
    return Completed.model_validate(events[-1].envelope.data)


@pytest.mark.spec("A1", "A10")
async def test_identical_open_proposal_of_another_run_is_answered_by_the_first_one(governance: GovernanceRig) -> None:
    reason = new_id("why")
    runs: list[dict[str, Any]] = [{"run_id": new_id("run"), "call_id": new_id("call")} for _ in range(2)]
    first, second = [await ask_refund(governance, reason=reason, **run) for run in runs]
    assert first == second
    assert await ask_refund(governance, reason=reason, **runs[1]) == first
    assert (await names(governance, first)).count("joined") == 1
    await governance.decide("dave", first, "reject")
    await ended(governance, first)
    end = await completed(governance, first)
    assert (end.origin.run_id, [caller.run_id for caller in end.joined]) == (runs[0]["run_id"], [runs[1]["run_id"]])
    # The joined call, made again by a worker that did not know, is still answered; a new one is a new proposal.
    assert await ask_refund(governance, reason=reason, **runs[1]) == first
    assert await ask_refund(governance, reason=reason) != first


@pytest.mark.spec("A1")
async def test_another_requester_tool_target_or_argument_is_another_proposal(governance: GovernanceRig) -> None:
    directory = KvDirectory(KeyValue(governance.executor.bus, "DIRECTORY"))
    alice = await directory.find("acme", "alice")
    assert alice is not None
    await directory.put(alice.model_copy(update={"id": "anna"}))
    reason = new_id("why")
    found = {
        await ask_refund(governance, reason=reason),
        await ask_refund(governance, reason=reason, person="anna"),
        await ask_refund(governance, "A1004", reason=reason),
        await ask_refund(governance, amount=2, reason=reason),
        await asked(governance, "alice", "cancel_order", {"order_id": "A1010", "reason": reason}),
    }
    assert len(found) == 5
    gone = PersonChange(active=False, roles=(), teams=(), clearance=0)
    await directory.change("acme", "anna", gone)


@pytest.mark.spec("A1", "A2")
async def test_identical_calls_at_once_on_two_replicas_are_one_proposal(governance: GovernanceRig) -> None:
    reason = new_id("why")
    async with replica(governance):
        found = await asyncio.gather(*(ask_refund(governance, reason=reason) for _ in range(16)))
    assert len(set(found)) == 1
    history = await names(governance, found[0])
    assert (history.count("proposed"), history.count("joined")) == (1, 15)
    await governance.decide("dave", found[0], "reject")


@pytest.mark.spec("A1")
async def test_more_open_proposals_than_policy_allows_are_limit_reached(governance: GovernanceRig) -> None:
    """Exactly the limit is admitted of any number at once; what has ended makes room again."""

    async def change(number: int) -> str | ErrorCode:
        args = {"order_id": "A1010", "address": f"{number} Century Avenue"}
        try:
            return await asked(governance, "alice", "change_order", args)
        except PlacetError as error:
            return error.code

    async with replica(governance):
        outcomes = await asyncio.gather(*(change(number) for number in range(10)))
    admitted: list[str | ErrorCode] = [outcome for outcome in outcomes if not isinstance(outcome, ErrorCode)]
    assert len(admitted) == LIMIT
    assert set(outcomes) - set(admitted) == {ErrorCode.LIMIT_REACHED}
    trail = (await governance.audit(actor="alice", type="tool-finished", limit=500)).items
    assert any(entry.record.code == "limit_reached" and entry.record.tool == "change_order" for entry in trail)
    await governance.decide("dave", str(admitted[0]), "reject")

    async def room() -> bool:
        admitted.append(await change(99))
        return not isinstance(admitted[-1], ErrorCode)

    await until(room, timeout_s=PATIENCE_S, what="room for one more")
    assert await change(100) is ErrorCode.LIMIT_REACHED
    for left in (admitted[1], admitted[2], admitted[-1]):
        await governance.decide("dave", str(left), "reject")


@pytest.mark.spec("A1")
async def test_key_of_a_proposal_that_was_never_stored_is_taken_over(
    governance: GovernanceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica was killed between the claim and the first event; woken up late, it finds its place fenced."""
    reason, claims = new_id("why"), []
    claim = KvOpenProposals.claim

    async def spied(desk: KvOpenProposals, key: str, proposal_id: str, ttl_s: int, **how: bool) -> Any:
        claims.append((key, proposal_id))
        return await claim(desk, key, proposal_id, ttl_s, **how)

    monkeypatch.setattr(KvOpenProposals, "claim", spied)
    first = await ask_refund(governance, reason=reason)
    await governance.decide("dave", first, "reject")
    bucket = KeyValue(governance.approval.bus, "OPEN_PROPOSALS")
    key = next(key for key, holder in claims if holder == first)
    dead = new_id("prop")
    await bucket.put(key, dead.encode())
    after = await ask_refund(governance, reason=reason)
    assert after != first
    entry = await bucket.get(key)
    assert entry is not None
    assert entry.value.decode() == after
    fenced = await EventReader(governance.approval.bus, "APPROVALS").entity("acme", "approval", dead)
    assert [event.name for event in fenced] == ["merged"]


@pytest.mark.spec("A1", "A3")
async def test_edit_of_a_proposal_that_rests_on_untrusted_text_is_judged_with_it(governance: GovernanceRig) -> None:
    """Only the untrusted document makes this write wait for a person; that must hold for the edit and the commit."""
    args = {"order_id": "A1009", "note": "call back"}
    extra = {"untrusted_documents": ("doc-x",), "run_id": new_id("run"), "route": Route.BUSINESS_ACTION}
    proposal_id = await asked(governance, "alice", "add_order_note", args, **extra)
    view = await governance.proposal("alice", proposal_id)
    changed = {"order_id": "A1009", "note": "call back tomorrow"}
    await governance.decide("alice", proposal_id, "edit", digest=view.digest, args=changed)
    done = await ended(governance, proposal_id)
    assert (done.finish_reason, done.arguments) == (FinishReason.SUCCESS, changed)
