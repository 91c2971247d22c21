"""Proposals: what they carry, who sees them, and the same call proposed again (A1, A4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import FinishReason, ProposalStatus
from placet.contracts.tools import Route
from placet.observability.context import new_id
from tests.integration.governance_rig import GovernanceRig
from tests.integration.proposal_steps import DEADLINE_S, ended, propose, refunds, refused


@pytest.mark.spec("A1", "W7")
async def test_proposal_carries_the_whole_packet_before_anyone_decides(governance: GovernanceRig) -> None:
    before = await refunds(governance, "A1002")
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
    assert await refunds(governance, "A1002") == before


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
