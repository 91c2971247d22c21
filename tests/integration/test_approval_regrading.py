"""A new policy, another role or a dismissal: open proposals are looked at again, at once and by themselves (B3).

On a rig of their own, because the policies that everybody is judged by change under it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.events import Regraded
from placet.contracts.proposals import FinishReason, ProposalStatus
from placet.messaging.directory import KvDirectory
from placet.messaging.kv import KeyValue
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.approval.adapters.listing import PostgresListing
from services.approval.app import build
from services.approval.domain.state import Proposal
from services.approval.handlers import regrading as regrading_module
from services.approval.handlers.regrading import Regrading
from services.tool_executor.handlers.commit import Commits
from tests.integration.approval_steps import (
    PATIENCE_S,
    ask_refund,
    asked,
    drained,
    ended,
    judges_by,
    names,
    policy,
    refused,
    replica,
    settled,
)
from tests.integration.governance_rig import GovernanceRig, answers_to

pytestmark = pytest.mark.spec("B3")


@pytest.fixture
async def rig(apart: GovernanceRig) -> GovernanceRig:
    """At rest: seeding wrote people down, and each such change is looked at twice, by the policy of then."""
    await settled(apart)
    await drained(apart, "approval__directory-v1")
    return apart


@pytest.fixture
def people(rig: GovernanceRig) -> KvDirectory:
    return KvDirectory(KeyValue(rig.executor.bus, "DIRECTORY"))


async def double(people: KvDirectory, of: str, **changes: Any) -> Person:
    """Somebody new with the facts of another."""
    model = await people.find("acme", of)
    assert model is not None
    person = model.model_copy(update={"id": new_id(of), **changes})
    await people.put(person)
    return person


async def listed(rig: GovernanceRig, *proposal_ids: str) -> None:
    """Wait until the listing shows them: only then is a later change sure to find them on its first look."""

    async def there() -> bool:
        page = await rig.proposals("dave", status="pending", limit=200)
        return set(proposal_ids) <= {item.proposal_id for item in page.items}

    await until(there, timeout_s=PATIENCE_S, what="the listing")


async def looked(rig: GovernanceRig, proposal_id: str, trigger: str = "policy:", viewer: str = "alice") -> Regraded:
    """The one look that this kind of change led to."""
    found: list[Regraded] = []

    async def there() -> bool:
        items = (await rig.history(viewer, proposal_id)).items
        stored = [Regraded.model_validate(item.data) for item in items if item.name == "regraded"]
        found[:] = [event for event in stored if event.trigger.startswith(trigger)]
        return bool(found)

    await until(there, timeout_s=PATIENCE_S, what=f"a look at {proposal_id}")
    [look] = found
    return look


async def test_requester_dismissed_withdraws_what_they_asked_for(rig: GovernanceRig, people: KvDirectory) -> None:
    person = await double(people, "alice")
    run_id = new_id("run")
    proposal_id = await ask_refund(rig, person=person.id, run_id=run_id)
    other = await ask_refund(rig)
    await listed(rig, proposal_id, other)
    await people.put(person.model_copy(update={"active": False}))
    view = await ended(rig, proposal_id, "dave")
    assert view.finish_reason is FinishReason.DENIED
    assert (await looked(rig, proposal_id, f"directory:{person.id}@", "dave")).outcome == "withdrawn"
    assert (await names(rig, proposal_id, "dave"))[-2:] == ["regraded", "completed"]
    assert (await rig.proposal("dave", other)).status is ProposalStatus.PENDING

    async def recorded() -> bool:
        trail = (await rig.audit(run_id=run_id)).items
        return [entry.type for entry in trail][-2:] in (
            ["proposal-regraded", "proposal-completed"],
            ["proposal-completed", "proposal-regraded"],
        )

    await until(recorded, timeout_s=PATIENCE_S, what="the record of the look and of the end")


async def test_requester_who_lost_the_role_is_denied_and_one_who_gained_one_is_unchanged(
    rig: GovernanceRig, people: KvDirectory
) -> None:
    loser, winner = await double(people, "alice"), await double(people, "alice")
    lost, kept = await ask_refund(rig, person=loser.id), await ask_refund(rig, person=winner.id)
    await listed(rig, lost, kept)
    before = await rig.proposal("dave", kept)
    await people.put(loser.model_copy(update={"roles": ("employee",)}))
    await people.put(winner.model_copy(update={"roles": (*winner.roles, "rnd")}))
    assert (await ended(rig, lost, "dave")).finish_reason is FinishReason.DENIED
    look = await looked(rig, kept, f"directory:{winner.id}@", "dave")
    after = await rig.proposal("dave", kept)
    assert (look.outcome, after.status, after.digest) == ("unchanged", ProposalStatus.PENDING, before.digest)


async def test_change_that_the_listing_was_too_late_for_is_found_when_it_shows_the_proposal(
    rig: GovernanceRig, people: KvDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the replica that was to list it dies: what it had in hand comes again after both looks are over."""
    store, again = PostgresListing.store, asyncio.Event()

    async def late(listing: PostgresListing, tenant: str, proposal: Proposal) -> None:
        await again.wait()
        await store(listing, tenant, proposal)

    monkeypatch.setattr(PostgresListing, "store", late)
    gone, there = await double(people, "alice"), await double(people, "alice")
    lost, kept = await ask_refund(rig, person=gone.id), await ask_refund(rig, person=there.id)
    await people.put(gone.model_copy(update={"roles": ("employee",)}))
    await drained(rig, "approval__directory-v1")
    assert (await rig.proposal("dave", lost)).status is ProposalStatus.PENDING
    again.set()
    assert (await ended(rig, lost, "dave")).finish_reason is FinishReason.DENIED
    assert (await looked(rig, lost, "listed:", "dave")).outcome == "withdrawn"
    await drained(rig, "approval__projection-v1")
    assert await names(rig, kept, "dave") == ["proposed", "waiting-for-human"]


async def test_proposal_that_cannot_be_looked_at_now_keeps_no_later_one_from_it(
    rig: GovernanceRig, people: KvDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a page of one: the failing one comes first, and the change is told again until it works."""
    person = await double(people, "alice")
    first, last = sorted([await ask_refund(rig, person=person.id), await ask_refund(rig, person=person.id)])
    await listed(rig, first, last)
    look, away = Regrading.look, True

    async def failing(regrading: Regrading, tenant: str, proposal_id: str, *arguments: Any, **named: Any) -> None:
        if away and proposal_id == first:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "Away.")
        await look(regrading, tenant, proposal_id, *arguments, **named)

    monkeypatch.setattr(Regrading, "look", failing)
    monkeypatch.setattr(regrading_module, "_PAGE", 1)
    await people.put(person.model_copy(update={"roles": ("employee",)}))
    assert (await ended(rig, last, "dave")).finish_reason is FinishReason.DENIED
    assert (await rig.proposal("dave", first)).status is ProposalStatus.PENDING
    away = False
    assert (await ended(rig, first, "dave")).finish_reason is FinishReason.DENIED


async def test_approver_who_lost_the_role_before_the_quorum_no_longer_counts(
    rig: GovernanceRig, people: KvDirectory
) -> None:
    """A first approval of two is worth nothing once its giver may not approve; a second one is then not enough."""
    gone = await double(people, "dave")
    proposal_id = await ask_refund(rig, "A2001", 700)
    assert (await rig.approve(gone.id, proposal_id)).status is ProposalStatus.PENDING
    await until(lambda: _approved_by(rig, proposal_id, gone.id), timeout_s=PATIENCE_S, what="the listing")
    await people.put(gone.model_copy(update={"roles": ("employee",)}))
    look = await looked(rig, proposal_id, f"directory:{gone.id}@")
    assert (look.outcome, look.approvals) == ("more_approvals", ())
    assert (await rig.approve("erin", proposal_id)).status is ProposalStatus.PENDING
    assert (await rig.proposal("dave", proposal_id)).approvals.needed == 2
    await rig.decide("dave", proposal_id, "reject")


async def _approved_by(rig: GovernanceRig, proposal_id: str, who: str) -> bool:
    page = await rig.proposals("dave", status="pending", limit=200)
    return any(item.proposal_id == proposal_id and item.approvals.given for item in page.items)


async def test_new_policy_that_lowers_the_limit_asks_for_a_second_person_on_a_new_digest(rig: GovernanceRig) -> None:
    proposal_id = await ask_refund(rig, "A1003", 20)
    old = await rig.proposal("dave", proposal_id)
    await listed(rig, proposal_id)
    with policy(rig, "limits", lambda limits: limits["second_person_above"].update(amount=15)):
        look = await looked(rig, proposal_id)
        assert (look.outcome, look.previous_digest) == ("more_approvals", old.digest)
        view = await rig.proposal("dave", proposal_id)
        assert (view.approvals.needed, view.policy_revision == old.policy_revision) == (2, False)
        stale = await refused(rig.decide("dave", proposal_id, digest=old.digest, answers=answers_to(old)))
        assert stale.code is ErrorCode.CONFLICT
        assert (await rig.approve("dave", proposal_id)).status is ProposalStatus.PENDING
        await rig.decide("erin", proposal_id, "reject")


async def test_new_policy_with_the_same_terms_is_written_once_by_two_replicas_and_stays_decidable(
    rig: GovernanceRig,
) -> None:
    proposal_id = await asked(rig, "alice", "odd_gated_write", {"mode": new_id("ok")})
    await listed(rig, proposal_id)
    async with replica(rig) as other:
        with policy(rig, "limits", lambda limits: limits["open_proposals"].update(each=999)):
            await looked(rig, proposal_id)
            revision = (await rig.proposal("alice", proposal_id)).policy_revision
            for service in (rig.approval, other):
                await until(partial(judges_by, service.watch, revision), timeout_s=PATIENCE_S, what="both looks")
            look = await looked(rig, proposal_id)
            assert (look.outcome, look.packet.digest == look.previous_digest) == ("unchanged", False)
            assert (await rig.approve("dave", proposal_id)).status is ProposalStatus.APPROVED
            assert (await ended(rig, proposal_id)).finish_reason is FinishReason.SUCCESS


async def test_new_policy_that_forbids_the_tool_withdraws_also_by_a_service_that_was_down_meanwhile(
    rig: GovernanceRig,
) -> None:
    """The policy changes while no approval service runs: the one that starts compares, and looks again."""
    proposal_id = await ask_refund(rig, "A1005", 3)
    await listed(rig, proposal_id)
    await rig.approval.stop()
    with policy(rig, "grants", lambda grants: grants["customer_support"]["tools"].remove("refund_payment")):
        rig.approval = await build(rig.approval_settings())
        await rig.approval.start()
        assert (await ended(rig, proposal_id, "dave")).finish_reason is FinishReason.DENIED
        items = (await rig.history("alice", proposal_id)).items
        assert [item.data["outcome"] for item in items if item.name == "regraded"][-1] == "withdrawn"


async def test_new_policy_with_another_role_asks_other_people(rig: GovernanceRig) -> None:
    proposal_id = await asked(rig, "alice", "odd_gated_write", {"mode": new_id("ok")})
    await listed(rig, proposal_id)
    roles = {"approver_roles": ["knowledge_admin"]}
    with policy(rig, "agreements", lambda agreements: agreements["finance_plain"]["obligations"].update(roles)):
        assert (await looked(rig, proposal_id)).outcome == "other_approvers"
        assert (await refused(rig.proposal("dave", proposal_id))).code is ErrorCode.NOT_FOUND
        assert (await rig.approve("carol", proposal_id)).status is ProposalStatus.APPROVED
        assert (await ended(rig, proposal_id)).finish_reason is FinishReason.SUCCESS


@pytest.mark.spec("A4", "A8")
async def test_approver_who_lost_the_role_between_decision_and_commit_executes_nothing(
    rig: GovernanceRig, people: KvDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision stands on the stream; the executor, late, reads the approver's rights when it commits."""
    commit, changed = Commits._bring_to_end, asyncio.Event()

    async def late(commits: Commits, *arguments: Any, **named: Any) -> Any:
        await changed.wait()
        return await commit(commits, *arguments, **named)

    monkeypatch.setattr(Commits, "_bring_to_end", late)
    approver = await double(people, "dave")
    proposal_id = await ask_refund(rig, "A1007", 5)
    assert (await rig.approve(approver.id, proposal_id)).status is ProposalStatus.APPROVED
    await people.put(approver.model_copy(update={"roles": ("employee",)}))
    changed.set()
    view = await ended(rig, proposal_id)
    assert (view.finish_reason, (view.outcome or {})["code"]) == (FinishReason.DENIED, "permission_denied")
    effects = await rig.effects_reader().entity("acme", "tool-executor", view.idempotency_key)
    assert "claimed" not in [event.name for event in effects]
