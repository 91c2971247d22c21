"""Proposals from proposing to the last event, on the real bus and database."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from placet.contracts import events as ev
from placet.contracts.directory import PersonChange
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Acknowledgements, FinishReason, ProposalStatus, ProposalView
from placet.contracts.tools import Route
from placet.identity import keys
from placet.identity.signing import EventSigner
from placet.messaging.append import Appender, NewEvent
from placet.messaging.directory import KvDirectory
from placet.messaging.kv import KeyValue
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.tool_executor.domain.ledger import Entry
from services.tool_executor.handlers.commit import Commits
from tests.integration.governance_rig import GovernanceRig, answers_to

DEADLINE_S = 15.0


async def propose(
    rig: GovernanceRig,
    order: str,
    amount: float = 10,
    *,
    person: str = "alice",
    reason: str | None = None,
    **extra: Any,
) -> str:
    """A new proposal each time, unless `reason` is given: the same, still open, is one proposal."""
    args = {"order_id": order, "amount": amount, "reason": reason or new_id("broken")}
    extra.setdefault("run_id", new_id("run"))
    extra.setdefault("route", Route.BUSINESS_ACTION)
    reply = await rig.execute(person, "refund_payment", args, **extra)
    assert reply.status == "waiting_for_human"
    assert reply.proposal is not None
    return reply.proposal.proposal_id


async def ended(rig: GovernanceRig, proposal_id: str, viewer: str = "alice") -> ProposalView:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            view = await rig.proposal(viewer, proposal_id)
            if view.status is ProposalStatus.COMPLETED:
                return view
            await asyncio.sleep(0.02)


async def refunds(rig: GovernanceRig, order: str) -> list[dict[str, Any]]:
    reply = await rig.execute("alice", "query_business_data", {"entity": "refunds", "order_id": order})
    items: list[dict[str, Any]] = (reply.result or {})["items"]
    return items


async def refused(work: Any) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await work
    return caught.value


@pytest.mark.spec("A1", "W7")
async def test_proposal_carries_the_whole_packet_before_anyone_decides(governance: GovernanceRig) -> None:
    proposal_id = await propose(
        governance, "A1002", 10, reason="arrived broken", intent="refund please", lineage=("doc-1:v1:chunk-01",)
    )
    view = await governance.proposal("dave", proposal_id)
    assert view.status is ProposalStatus.PENDING
    assert view.arguments == {"order_id": "A1002", "amount": 10, "reason": "arrived broken"}
    assert (view.requester, view.intent, view.lineage) == ("alice", "refund please", ("doc-1:v1:chunk-01",))
    assert view.resource is not None
    assert (view.resource.type, view.resource.id) == ("order", "A1002")
    assert view.digest.startswith("sha256:")
    assert view.policy_revision.startswith("sha256:")
    assert view.preview
    assert view.blast_radius
    assert (view.expires_at - view.created_at).total_seconds() == pytest.approx(900, abs=5)
    assert view.challenge is not None
    assert view.challenge.retype == "order_id"
    assert await refunds(governance, "A1002") == []


@pytest.mark.spec("A2", "A8", "W7")
async def test_approved_refund_is_executed_once_read_back_and_completed(governance: GovernanceRig) -> None:
    run_id, request_id = new_id("run"), new_id("req")
    proposal_id = await propose(governance, "A1003", 12, run_id=run_id, request_id=request_id)
    result = await governance.approve("dave", proposal_id)
    assert result.status is ProposalStatus.APPROVED
    view = await ended(governance, proposal_id)
    assert view.finish_reason is FinishReason.SUCCESS
    assert [item["amount"] for item in await refunds(governance, "A1003")] == [12]
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


@pytest.mark.spec("A4", "I3")
async def test_who_may_not_decide_gets_404_or_403_and_nothing_changes(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1002")
    own = await refused(governance.approve("alice", proposal_id))
    assert own.code is ErrorCode.PERMISSION_DENIED
    unseen = await refused(governance.proposal("bob", proposal_id))
    absent = await refused(governance.proposal("bob", "prop-invented"))
    foreign = await refused(governance.proposal("alice", proposal_id, tenant="globex"))
    for error in (unseen, absent, foreign):
        assert (error.code, error.message, error.details) == (absent.code, absent.message, {})
    assert absent.code is ErrorCode.NOT_FOUND
    for who in ("bob", "mike", "auditor"):
        assert (await refused(governance.decide(who, proposal_id, "reject"))).code is ErrorCode.NOT_FOUND
    assert (await refused(governance.decide("dave", "prop-invented"))).code is ErrorCode.NOT_FOUND
    assert (await governance.proposal("dave", proposal_id)).status is ProposalStatus.PENDING


@pytest.mark.spec("A5", "G4")
async def test_challenge_unanswered_changes_nothing(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1002")
    view = await governance.proposal("dave", proposal_id)
    for answers in (None, Acknowledgements(resources=("A1002",), blast_radius=True, rollback=True, retype="A1001")):
        error = await refused(governance.decide("dave", proposal_id, digest=view.digest, answers=answers))
        assert error.code is ErrorCode.CHALLENGE_FAILED
    stale = await refused(governance.decide("dave", proposal_id, digest="sha256:0", answers=answers_to(view)))
    assert stale.code is ErrorCode.CONFLICT
    assert (await governance.proposal("dave", proposal_id)).status is ProposalStatus.PENDING


@pytest.mark.spec("A4", "G5")
async def test_amount_above_the_limit_needs_two_people(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A2001", 600)
    first = await governance.approve("dave", proposal_id)
    assert (first.status, (await governance.proposal("dave", proposal_id)).approvals.needed) == (
        ProposalStatus.PENDING,
        2,
    )
    twice = await refused(governance.approve("dave", proposal_id))
    assert twice.code is ErrorCode.ALREADY_DECIDED
    assert await refunds(governance, "A2001") == []
    assert (await governance.approve("erin", proposal_id)).status is ProposalStatus.APPROVED
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS


@pytest.mark.spec("A3")
async def test_edit_runs_what_the_approver_wrote_and_bad_edits_leave_it_pending(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1004", 20)
    view = await governance.proposal("dave", proposal_id)

    async def edit(arguments: dict[str, Any]) -> Any:
        answers = answers_to(view, {"order_id": "A1004", **arguments})
        return await governance.decide("dave", proposal_id, "edit", digest=view.digest, args=arguments, answers=answers)

    bad: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"order_id": "A1004", "amount": "20", "reason": "x"}, ErrorCode.INVALID_ARGUMENTS),
        ({"order_id": "A1004", "amount": -1, "reason": "x"}, ErrorCode.INVALID_ARGUMENTS),
        ({"order_id": "A1004", "amount": 1, "reason": "x", "more": 1}, ErrorCode.INVALID_ARGUMENTS),
        ({"order_id": "A3001", "amount": 1, "reason": "x"}, ErrorCode.NOT_FOUND),
    ]
    for arguments, code in bad:
        assert (await refused(edit(arguments))).code is code
    assert (await governance.proposal("dave", proposal_id)).status is ProposalStatus.PENDING
    result = await edit({"order_id": "A1004", "amount": 5, "reason": "goodwill"})
    assert (result.status, result.digest != view.digest) == (ProposalStatus.APPROVED, True)
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS
    assert [item["amount"] for item in await refunds(governance, "A1004")] == [5]


@pytest.mark.spec("A3")
@pytest.mark.parametrize(
    ("decision", "extra", "reason"),
    [("reject", {"message": "no"}, FinishReason.REJECTED), ("respond", {"message": "call"}, FinishReason.RESPONDED)],
)
async def test_reject_and_respond_complete_at_once_without_effect(
    governance: GovernanceRig, decision: str, extra: dict[str, Any], reason: FinishReason
) -> None:
    proposal_id = await propose(governance, "A1002")
    result = await governance.decide("dave", proposal_id, decision, **extra)
    assert (result.status, result.finish_reason) == (ProposalStatus.COMPLETED, reason)
    names = [item.name for item in (await governance.history("dave", proposal_id)).items]
    assert names[-1] == "completed"


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
    assert [item["amount"] for item in await refunds(governance, "A1005")] == [1]


@pytest.mark.spec("A8", "R4")
async def test_requester_dismissed_before_the_decision_executes_nothing(governance: GovernanceRig) -> None:
    directory = KvDirectory(KeyValue(governance.executor.bus, "DIRECTORY"))
    alice = await directory.find("acme", "alice")
    assert alice is not None
    await directory.put(alice.model_copy(update={"id": "zoe"}))
    proposal_id = await propose(governance, "A1008", 3, person="zoe")
    gone = PersonChange(active=False, roles=alice.roles, teams=alice.teams, clearance=alice.clearance)
    await directory.change("acme", "zoe", gone)
    with suppress(PlacetError):  # withdrawn already, by the second look that a dismissal leads to
        await governance.approve("dave", proposal_id)
    assert (await ended(governance, proposal_id, "dave")).finish_reason is FinishReason.DENIED
    assert await refunds(governance, "A1008") == []


@pytest.mark.spec("A2", "W9")
async def test_twenty_deciders_at_once_give_one_winner_and_one_effect(governance: GovernanceRig) -> None:
    proposal_id = await propose(governance, "A1007", 4)
    view = await governance.proposal("dave", proposal_id)

    async def decide(number: int) -> ErrorCode | None:
        who = "dave" if number % 2 else "erin"
        try:
            await governance.decide(who, proposal_id, digest=view.digest, answers=answers_to(view))
        except PlacetError as error:
            return error.code
        return None

    outcomes = await asyncio.gather(*(decide(number) for number in range(20)))
    assert outcomes.count(None) == 1
    assert set(outcomes) - {None} == {ErrorCode.ALREADY_DECIDED}
    await ended(governance, proposal_id)
    assert [item["amount"] for item in await refunds(governance, "A1007")] == [4]


@pytest.mark.spec("A1")
async def test_same_call_proposed_again_is_the_same_proposal(governance: GovernanceRig) -> None:
    call: dict[str, Any] = {"run_id": new_id("run"), "call_id": new_id("call")}
    first = await propose(governance, "A1002", reason="once", **call)
    assert await propose(governance, "A1002", reason="once", **call) == first


@pytest.mark.spec("A1", "A10", "W9")
async def test_call_repeated_after_its_refund_ran_is_still_that_proposal(governance: GovernanceRig) -> None:
    """An agent that was killed asks again; nothing is left to refund by then, and yet the answer is no refusal."""
    call: dict[str, Any] = {"run_id": new_id("run"), "call_id": new_id("call")}
    proposal_id = await propose(governance, "A1006", 88, reason="once", **call)
    paid = await governance.execute("alice", "query_business_data", {"entity": "orders", "order_id": "A1006"})
    everything = float((paid.result or {})["items"][0]["paid_amount"])
    rest = await propose(governance, "A1006", everything)
    await governance.approve("dave", rest)
    await governance.approve("erin", rest)
    assert (await ended(governance, rest)).finish_reason is FinishReason.SUCCESS
    assert await propose(governance, "A1006", 88, reason="once", **call) == proposal_id


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
    assert [item["amount"] for item in await refunds(governance, "A1002")] == [6]


@pytest.mark.spec("T7", "U5")
async def test_waiting_card_carries_metadata_only(governance: GovernanceRig) -> None:
    args = {"order_id": "A1002", "amount": 7, "reason": "SECRET-REASON"}
    reply = await governance.execute("alice", "refund_payment", args, intent="SECRET-INTENT")
    assert reply.proposal is not None
    assert set(reply.proposal.model_dump()) == {"proposal_id", "tool", "title", "risk", "expires_at"}
    history = (await governance.history("dave", reply.proposal.proposal_id)).items
    [card] = [item.data for item in history if item.name == "waiting-for-human"]
    assert "SECRET" not in f"{card}{reply.proposal}"


@pytest.mark.spec("A11", "T8")
async def test_publish_not_approved_leaves_document_and_lock_version(governance: GovernanceRig) -> None:
    async def publish() -> str:
        reply = await governance.execute(
            "carol", "create_publish_proposal", {"document_id": "doc-remote-work"}, route=Route.HTTP_PUBLISH
        )
        assert reply.proposal is not None
        assert (reply.tool, reply.proposal.tool) == ("apply_publish_decision", "apply_publish_decision")
        return reply.proposal.proposal_id

    rejected = await publish()
    first = await governance.decide("carol", rejected, "reject")
    assert first.finish_reason is FinishReason.REJECTED
    approved = await publish()
    view = await governance.proposal("carol", approved)
    assert view.challenge is None
    before = view.arguments["lock_version"]
    await governance.decide("carol", approved, digest=view.digest)
    done = await ended(governance, approved, "carol")
    assert done.finish_reason is FinishReason.SUCCESS
    assert (done.outcome or {})["result"]["lock_version"] == before + 1


@pytest.mark.spec("A1", "I3")
async def test_listing_shows_only_what_the_viewer_may_see_page_by_page(governance: GovernanceRig) -> None:
    wanted = {await propose(governance, "A1002") for _ in range(5)}

    async def listed(person: str, **filters: Any) -> list[str]:
        found: list[str] = []
        cursor = None
        while True:
            page = await governance.proposals(person, limit=3, cursor=cursor, **filters)
            found += [item.proposal_id for item in page.items]
            cursor = page.next
            if cursor is None:
                return found

    async with asyncio.timeout(DEADLINE_S):
        while not wanted <= set(await listed("dave", status="pending", tool="refund_payment")):
            await asyncio.sleep(0.05)
    everything = await listed("dave")
    assert len(everything) == len(set(everything))
    assert wanted <= set(await listed("alice"))
    assert not wanted & set(await listed("bob"))
    assert await listed("mike") == []
    bad = await refused(governance.proposals("dave", cursor="not-a-cursor"))
    assert bad.code is ErrorCode.INVALID_REQUEST


@pytest.mark.spec("L1")
async def test_audit_trail_is_for_auditors_only(governance: GovernanceRig) -> None:
    from placet.contracts.approvals import AuditPage, QueryAudit

    for person in ("alice", "dave", "mike", "directory_admin"):
        command = QueryAudit(grant=governance.grant(person))
        assert (await refused(governance._ask("query-audit", command, AuditPage))).code is ErrorCode.PERMISSION_DENIED
    page = await governance.audit(limit=2)
    following = await governance.audit(limit=2, after=int(page.next or 0))
    assert page.items[-1].seq < following.items[0].seq


@pytest.mark.spec("A2", "L1")
async def test_badly_signed_event_stored_by_an_intruder_counts_for_nothing(governance: GovernanceRig) -> None:
    """Even one who could write to the stream cannot decide: the event is left out of the fold and alarmed."""
    proposal_id = await propose(governance, "A1002")
    history = (await governance.history("dave", proposal_id)).items
    intruder = await governance.nats.bus("provision")
    forged = Appender(intruder, "approval", "APPROVALS", EventSigner(keys.generate()))
    event = ev.Rejected(proposal_id=proposal_id, by="dave", message="forged")
    await forged.append("acme", NewEvent("rejected", proposal_id, event), history[-1].seq)
    view = await governance.proposal("alice", proposal_id)
    assert view.status is ProposalStatus.PENDING
    assert [item.verified for item in (await governance.history("dave", proposal_id)).items] == [True, True, False]
    async with asyncio.timeout(DEADLINE_S):
        while not [
            entry
            for entry in (await governance.audit(type="security-event", limit=500)).items
            if entry.record.action == "bad_signature"
        ]:
            await asyncio.sleep(0.05)
    assert (await governance.approve("dave", proposal_id)).status is ProposalStatus.APPROVED
    assert (await ended(governance, proposal_id)).finish_reason is FinishReason.SUCCESS
