"""Deciding on proposals, and publishing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from gateway_rig import House, open_house, publication, refund

from placet.contracts.proposals import DecisionKind, FinishReason, ProposalStatus
from placet.contracts.tools import Route
from placet.testkit.builders import DIGEST


@pytest.fixture(scope="module")
async def opened() -> AsyncIterator[House]:
    async with open_house(gateway_publish_wait_s=1.5) as house:
        yield house


@pytest.fixture
async def house(opened: House) -> House:
    """With fresh proposals: decisions of one test are not the next one's."""
    opened.approval.reset(refund(), publication())
    return opened


ANSWERS = {"resources": ["A1001"], "blast_radius": True, "rollback": True, "retype": "A1001"}


@pytest.mark.spec("A3", "A5")
async def test_decision_is_passed_on_with_everything_the_person_said(house: House) -> None:
    body = {"decision": "approve", "digest": DIGEST, "message": "fine", "acknowledgements": ANSWERS}
    answer = await house.as_("dave").post("/api/proposals/prop-1/decisions", json=body)
    assert answer.status_code == 200
    assert answer.json() == {
        "proposal_id": "prop-1",
        "status": "approved",
        "finish_reason": None,
        "digest": DIGEST,
    }
    command = house.approval.last("decide").command
    assert (command.decision, command.message) == (DecisionKind.APPROVE, "fine")
    assert command.acknowledgements.model_dump(mode="json") == ANSWERS
    assert house.approval.last("decide").grant.actor == "dave"


@pytest.mark.spec("A2", "A4", "A5")
@pytest.mark.parametrize(
    ("who", "change", "status", "code"),
    [
        ("alice", {}, 403, "permission_denied"),
        ("bob", {}, 404, "not_found"),
        ("dave", {"acknowledgements": None}, 422, "challenge_failed"),
        ("dave", {"digest": "sha256:other"}, 409, "conflict"),
    ],
)
async def test_decision_refused_is_a_problem_and_decides_nothing(
    house: House, who: str, change: dict[str, Any], status: int, code: str
) -> None:
    body = {"decision": "approve", "digest": DIGEST, "acknowledgements": ANSWERS} | change
    answer = await house.as_(who).post("/api/proposals/prop-1/decisions", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert house.approval.proposals["prop-1"].status is ProposalStatus.PENDING


@pytest.mark.spec("A2")
async def test_decision_a_second_time_is_409_already_decided(house: House) -> None:
    body = {"decision": "reject", "digest": DIGEST}
    client = house.as_("dave")
    first = await client.post("/api/proposals/prop-1/decisions", json=body)
    assert (first.json()["status"], first.json()["finish_reason"]) == ("completed", "rejected")
    second = await client.post("/api/proposals/prop-1/decisions", json=body)
    assert (second.status_code, second.json()["code"]) == (409, "already_decided")


@pytest.mark.spec("A11")
async def test_publish_proposal_is_201_and_bound_to_the_lock_version(house: House) -> None:
    answer = await house.as_("carol").post("/api/documents/doc-1/publish-proposals")
    assert answer.status_code == 201
    assert answer.json() == {
        "proposal_id": "prop-publish",
        "status": "pending",
        "document_id": "doc-1",
        "lock_version": 7,
        "expires_at": "2026-11-30T12:00:00+00:00",
    }
    command = house.executor.last("execute-tool").command
    assert (command.tool, command.route) == ("create_publish_proposal", Route.HTTP_PUBLISH)
    assert command.args == {"document_id": "doc-1"}


PUBLISH = "/api/publish-proposals/prop-publish/decisions"


@pytest.mark.spec("A11")
async def test_publish_approved_waits_until_it_is_done(house: House) -> None:
    answer = await house.as_("carol").post(PUBLISH, json={"approved": True})
    assert answer.status_code == 200
    assert answer.json() == {"proposal_id": "prop-publish", "status": "completed", "finish_reason": "success"}
    assert house.approval.last("decide").command.digest == DIGEST


@pytest.mark.spec("A11")
async def test_publish_not_approved_ends_it_at_once(house: House) -> None:
    answer = await house.as_("carol").post(PUBLISH, json={"approved": False})
    assert answer.json() == {"proposal_id": "prop-publish", "status": "completed", "finish_reason": "rejected"}
    assert house.approval.last("decide").command.decision is DecisionKind.REJECT


@pytest.mark.spec("A11", "A8")
async def test_publish_of_a_document_changed_meanwhile_is_409_conflict(house: House) -> None:
    house.approval.publish_end = FinishReason.SUPERSEDED
    answer = await house.as_("carol").post(PUBLISH, json={"approved": True})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


async def test_publish_that_takes_longer_than_the_wait_is_told_as_it_stands(house: House) -> None:
    house.approval.work_s = 30.0
    answer = await house.as_("carol").post(PUBLISH, json={"approved": True})
    assert answer.json() == {"proposal_id": "prop-publish", "status": "approved", "finish_reason": None}


@pytest.mark.spec("A11")
async def test_publish_decision_on_another_kind_of_proposal_is_404(house: House) -> None:
    before = house.approval.count("decide")
    answer = await house.as_("dave").post("/api/publish-proposals/prop-1/decisions", json={"approved": True})
    absent = await house.as_("dave").post("/api/publish-proposals/none/decisions", json={"approved": True})
    assert answer.status_code == absent.status_code == 404
    assert answer.content == absent.content
    assert house.approval.count("decide") == before


@pytest.mark.spec("A5")
async def test_publish_decision_never_answers_a_challenge_for_the_person(house: House) -> None:
    changed = publication().model_copy(update={"challenge": refund().challenge})
    house.approval.proposals["prop-publish"] = changed
    answer = await house.as_("carol").post(PUBLISH, json={"approved": True})
    assert (answer.status_code, answer.json()["code"]) == (422, "challenge_failed")
