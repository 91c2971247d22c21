"""Approved proposals: executed once, and only if the world is still what was signed (A8, W9)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from placet.contracts import events as ev
from placet.contracts.directory import PersonChange
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import FinishReason, ProposalStatus
from placet.messaging.directory import KvDirectory
from placet.messaging.kv import KeyValue
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.tool_executor.domain.ledger import Entry
from services.tool_executor.handlers.commit import Commits
from tests.integration.governance_rig import GovernanceRig
from tests.integration.proposal_steps import DEADLINE_S, ended, propose, refunds, refused


@pytest.mark.spec("A2", "A8", "W7")
async def test_approved_refund_is_executed_once_read_back_and_completed(governance: GovernanceRig) -> None:
    run_id, request_id = new_id("run"), new_id("req")
    proposal_id = await propose(governance, "A1003", 12, run_id=run_id, request_id=request_id)
    result = await governance.approve("dave", proposal_id)
    assert result.status is ProposalStatus.APPROVED
    view = await ended(governance, proposal_id)
    assert view.finish_reason is FinishReason.SUCCESS
    assert [item["amount"] for item in await refunds(governance, "A1003")].count(12) == 1
    history = (await governance.history("dave", proposal_id)).items
    assert [item.name for item in history] == ["proposed", "waiting-for-human", "viewed", "approved", "completed"]
    assert all(item.verified for item in history)
    effects = await governance.effects_reader().entity("acme", "tool-executor", view.idempotency_key)
    assert [event.name for event in effects] == ["claimed", "executed", "verified"]

    async def recorded() -> bool:
        return len((await governance.audit(run_id=run_id)).items) >= 4

    await until(recorded, what="the records of a decision and of an end, which follow their events")
    trail = (await governance.audit(run_id=run_id)).items
    assert sorted(entry.type for entry in trail) == [
        "effect-finished",
        "proposal-completed",
        "proposal-decided",
        "tool-decided",
    ]
    assert {entry.record.request_id for entry in trail if entry.type != "proposal-decided"} == {request_id}
    again = await refused(governance.approve("erin", proposal_id))
    assert again.code is ErrorCode.ALREADY_DECIDED


@pytest.mark.spec("A8", "B1")
async def test_resource_that_moved_between_decision_and_commit_supersedes(governance: GovernanceRig) -> None:
    """Two proposals on one order: the first one executed moves the order's version, so the second runs nothing."""
    first, second = await propose(governance, "A1005", 1), await propose(governance, "A1005", 2)
    await governance.approve("dave", first)
    assert (await ended(governance, first)).finish_reason is FinishReason.SUCCESS
    await governance.approve("dave", second)
    view = await ended(governance, second)
    assert view.finish_reason is FinishReason.SUPERSEDED
    outcome = view.outcome or {}
    before, now = (float(outcome["diff"]["resource.refundable"][when]) for when in ("signed", "now"))
    assert before - now == 1
    assert f"refundable: {before:.2f} → {now:.2f}" in outcome["message"]
    assert [item["amount"] for item in await refunds(governance, "A1005")].count(1) == 1


@pytest.mark.spec("A8", "R4")
async def test_requester_dismissed_before_the_decision_executes_nothing(governance: GovernanceRig) -> None:
    directory = KvDirectory(KeyValue(governance.executor.bus, "DIRECTORY"))
    alice = await directory.find("acme", "alice")
    assert alice is not None
    await directory.put(alice.model_copy(update={"id": "zoe"}))
    before = await refunds(governance, "A1008")
    proposal_id = await propose(governance, "A1008", 3, person="zoe")
    gone = PersonChange(active=False, roles=alice.roles, teams=alice.teams, clearance=alice.clearance)
    await directory.change("acme", "zoe", gone)
    with suppress(PlacetError):  # withdrawn already, by the second look that a dismissal leads to
        await governance.approve("dave", proposal_id)
    assert (await ended(governance, proposal_id, "dave")).finish_reason is FinishReason.DENIED
    assert await refunds(governance, "A1008") == before


@pytest.mark.spec("L1", "A8")
async def test_effect_whose_worker_died_before_recording_it_is_recorded_on_redelivery(
    governance: GovernanceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first delivery ends after the ledger and before the record, as a kill there would end it."""
    report = Commits._report
    broken: list[Entry] = []

    async def dies_once(commits: Commits, approved: ev.Approved, entry: Entry) -> None:
        if not broken:
            broken.append(entry)
            raise ConnectionError("killed here")
        await report(commits, approved, entry)

    monkeypatch.setattr(Commits, "_report", dies_once)
    run_id = new_id("run")
    proposal_id = await propose(governance, "A1002", 6, run_id=run_id)
    await governance.approve("dave", proposal_id)
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS
    async with asyncio.timeout(DEADLINE_S):
        while "effect-finished" not in [entry.type for entry in (await governance.audit(run_id=run_id)).items]:
            await asyncio.sleep(0.05)
    assert [item["amount"] for item in await refunds(governance, "A1002")].count(6) == 1
