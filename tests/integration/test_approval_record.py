"""Who looked, and the record of the end: both written once, whoever dies in between (L1)."""

from __future__ import annotations

import asyncio

import pytest

from placet.contracts.errors import ErrorCode
from placet.contracts.events import Viewed
from placet.contracts.proposals import FinishReason
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.approval.domain.state import Proposal
from services.approval.handlers.ending import Ending
from tests.integration.approval_steps import PATIENCE_S, ask_refund, ended, names, refused
from tests.integration.governance_rig import GovernanceRig


@pytest.mark.spec("A2", "L1")
async def test_packet_opened_by_those_who_may_decide_is_recorded_once_for_each(governance: GovernanceRig) -> None:
    proposal_id = await ask_refund(governance)
    for _ in range(2):
        await governance.proposal("alice", proposal_id)
    assert (await refused(governance.proposal("bob", proposal_id))).code is ErrorCode.NOT_FOUND
    assert await names(governance, proposal_id) == ["proposed", "waiting-for-human"]
    await asyncio.gather(*(governance.proposal(who, proposal_id) for who in ("dave", "erin", "dave", "erin", "dave")))
    await governance.proposal("dave", proposal_id)
    stored = (await governance.history("dave", proposal_id)).items
    seen = [Viewed.model_validate(item.data) for item in stored if item.name == "viewed"]
    shown = await governance.proposal("alice", proposal_id)
    assert sorted(event.by for event in seen) == ["dave", "erin"]
    assert {event.digest for event in seen} == {shown.digest}
    await governance.decide("dave", proposal_id, "reject")
    history = await names(governance, proposal_id)
    await governance.proposal("dave", proposal_id)
    assert await names(governance, proposal_id) == history


@pytest.mark.spec("A2")
async def test_views_between_reading_and_deciding_do_not_make_the_decision_fail(governance: GovernanceRig) -> None:
    for _ in range(5):
        proposal_id = await ask_refund(governance)
        looks = asyncio.gather(*(governance.proposal(who, proposal_id) for who in ("dave", "erin", "dave")))
        decided = await governance.decide("dave", proposal_id, "reject")
        await looks
        assert decided.finish_reason is FinishReason.REJECTED


@pytest.mark.spec("L1", "A2")
async def test_record_of_an_end_whose_writer_died_is_written_on_redelivery_once(
    governance: GovernanceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reaction to the stored event writes it: killed before, after, or in between, there is one record."""
    close = Ending.close
    deaths: list[str] = []

    async def dies_twice(ending: Ending, state: Proposal) -> None:
        deaths.append(state.id)
        if deaths.count(state.id) == 1:
            raise ConnectionError("killed before the record")
        await close(ending, state)
        if deaths.count(state.id) == 2:
            raise ConnectionError("killed after the record")

    monkeypatch.setattr(Ending, "close", dies_twice)
    run_id = new_id("run")
    proposal_id = await ask_refund(governance, run_id=run_id)
    await governance.decide("dave", proposal_id, "reject")
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.REJECTED
    await until(lambda: deaths.count(proposal_id) >= 3, timeout_s=PATIENCE_S, what="two redeliveries")
    records = [e for e in (await governance.audit(run_id=run_id)).items if e.type == "proposal-completed"]
    assert [(entry.record.outcome, entry.record.approvers) for entry in records] == [("rejected", ("dave",))]
